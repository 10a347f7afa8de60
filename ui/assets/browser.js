// What the browser does for several scripts: keeps values, which a private window does not, and saves files.
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
window.marsSave = (blob, name) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};
