// The page around the terminal: keeps one WebSocket to the same dashboard through cuts, shows its state, and has the keys
// that a touch screen lacks. The terminal itself is xterm.js, in the file of textual-serve, which opens `window.WebSocket`.
"use strict";

(() => {
  const PlainSocket = window.WebSocket;
  const SESSION = "imi-session"; // in the storage of this tab: which dashboard it shows
  const LEAST_PAUSE = 250; // milliseconds
  const MOST_PAUSE = 5000;
  const FINAL = 4000; // close codes from here on are not tried again
  const KEYS = [
    ["esc", "\x1b"], ["tab", "\t"], ["↑", "\x1b[A"], ["↓", "\x1b[B"], ["⏎", "\r"], ["/", "/"], ["a", "a"], ["w", "w"], ["?", "?"],
  ];
  const find = (id) => document.getElementById(id);
  let current = null;

  function notice(sentence, final) {
    find("sentence").textContent = sentence;
    find("again").hidden = !final;
    find("notice").hidden = !sentence;
    if (final) find("again").focus();
  }

  // What textual-serve's file takes for a WebSocket.
  class TerminalSocket extends EventTarget {
    constructor(address) {
      super();
      this.address = new URL(address, location.href);
      this.address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
      this.failures = 0;
      this.timer = 0;
      current = this;
      this.connect();
    }

    connect() {
      clearTimeout(this.timer);
      const kept = sessionStorage.getItem(SESSION);
      if (kept) this.address.searchParams.set("session", kept);
      this.socket = new PlainSocket(this.address);
      this.socket.binaryType = "arraybuffer";
      this.socket.onmessage = (message) => this.receive(message.data);
      this.socket.onclose = (closed) => this.lost(closed);
    }

    receive(data) {
      if (typeof data !== "string") {
        this.dispatchEvent(new MessageEvent("message", { data }));
        return;
      }
      const [kind, value] = JSON.parse(data);
      if (kind !== "session") return;
      sessionStorage.setItem(SESSION, value);
      this.failures = 0;
      notice("");
      this.dispatchEvent(new Event("open"));
    }

    send(text) {
      const [kind, value] = JSON.parse(text);
      if (kind === "resize") {
        this.address.searchParams.set("width", value.width);
        this.address.searchParams.set("height", value.height);
      }
      if (kind !== "stdin" && kind !== "resize") return;
      if (this.socket.readyState === PlainSocket.OPEN) this.socket.send(text);
    }

    async lost(closed) {
      if (closed.code >= FINAL) {
        if (closed.code !== FINAL + 2) sessionStorage.removeItem(SESSION);
        notice(closed.reason, true);
        return;
      }
      notice("The connection to imi web is lost. Trying again …");
      const pause = Math.min(MOST_PAUSE, LEAST_PAUSE * 2 ** this.failures++);
      this.timer = setTimeout(() => this.connect(), pause);
      const answer = await fetch("page.css").catch(() => null);
      if (answer && answer.status === 401) {
        clearTimeout(this.timer);
        notice("imi web was started again: open the address that it printed.");
      }
    }

    retry() {
      if (this.socket.readyState === PlainSocket.CLOSED && find("again").hidden && !find("notice").hidden) this.connect();
    }
  }

  function addKeys() {
    for (const [label, sequence] of KEYS) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.addEventListener("pointerdown", (event) => event.preventDefault()); // the terminal keeps the focus
      button.addEventListener("click", () => current?.send(JSON.stringify(["stdin", sequence])));
      find("keys").append(button);
    }
  }

  async function start() {
    addKeys();
    find("again").addEventListener("click", () => location.reload());
    const width = window.innerWidth;
    find("terminal").dataset.fontSize = width < 600 ? 11 : width < 1200 ? 14 : 15;
    await Promise.allSettled([document.fonts.load("15px 'Roboto Mono'"), document.fonts.load("italic 15px 'Roboto Mono'")]);
    const script = document.createElement("script"); // after the fonts: it measures them once
    script.src = "textual.js";
    script.onload = () => {
      window.onload(new Event("load"));
      document.querySelector(".xterm-helper-textarea")?.focus();
    };
    script.onerror = () => notice("The terminal cannot be loaded: is imi web still running?");
    document.body.append(script);
  }

  window.WebSocket = TerminalSocket;
  window.addEventListener("load", start, { once: true });
  window.addEventListener("online", () => current?.retry());
  document.addEventListener("visibilitychange", () => document.hidden || current?.retry());
})();
