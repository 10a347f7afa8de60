// What several scripts do: keep values, which a private window does not, listen as long as they are on the page, save files.
window.marsStorage = {
  read(name) {
    try {
      return JSON.parse(localStorage.getItem(name));
    } catch {
      return null;
    }
  },
  write(name, value) {
    try {
      localStorage.setItem(name, JSON.stringify(value));
    } catch {
      /* nothing is kept */
    }
  },
};
window.marsListen = (element, name, target, action) => {
  const heard = (event) =>
    element.isConnected ? action(event) : target.removeEventListener(name, heard);
  target.addEventListener(name, heard);
};
// An event of the mode "always_last" that comes while another is answered is sent later, but with the data object of that one: all
// events of one kind share an object, which has the latest data.
window.marsLatest = (shared, latest) => {
  for (const name of Object.keys(shared)) delete shared[name];
  return Object.assign(shared, latest);
};
window.marsSave = (blob, name) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};
