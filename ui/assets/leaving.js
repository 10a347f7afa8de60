// Connections that end with the page are no errors. In the head itself: before the client that closes them, which says so.
addEventListener("beforeunload", () => {
  const { error } = console;
  console.error = () => {};
  setTimeout(() => Object.assign(console, { error }), 30000); // the page stays, as after a download
});
