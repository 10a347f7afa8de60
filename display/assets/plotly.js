// Plotly, from this page's own server, once for the window; PLOTLY says where it is.
const idle = () =>
  new Promise((done) =>
    window.requestIdleCallback ? requestIdleCallback(done, { timeout: 1000 }) : setTimeout(done),
  );
window.marsLibrary = () =>
  (window.marsPlotly ||= idle().then(
    () =>
      new Promise((done, fail) => {
        const script = document.createElement("script");
        script.src = PLOTLY;
        script.onload = () => done(window.Plotly);
        script.onerror = () => {
          window.marsPlotly = null;
          script.remove();
          fail(new Error("no plotly"));
        };
        document.head.append(script);
      }),
  ));
