/** Server-sent events over fetch, so that a token can go in a header; connects again by itself. */

const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 30000;
const SILENCE = 15000; // the service says something every five seconds

export class Feed {
  /** `tell(kind, value)` is called with "state", and with every event by its name. */
  constructor(address, tell) {
    this.address = address;
    this.tell = tell;
    this.pause = FIRST_PAUSE;
    this.token = sessionStorage.getItem("scstream-token");
    this.view = ""; // what the axes of the map should be
  }

  /** Connect with other axes of the map: "fit", "follow" or the number of a view. */
  look(view) {
    this.view = view;
    this.connect({ quietly: true });
  }

  /** Connect with this token from now on. */
  use(token) {
    this.token = token;
    sessionStorage.setItem("scstream-token", token);
    this.connect();
  }

  async connect({ quietly = false } = {}) {
    clearTimeout(this.again);
    this.abort?.abort();
    const abort = (this.abort = new AbortController());
    if (!quietly) this.tell("state", { state: "waiting" });
    try {
      const headers = { accept: "text/event-stream" };
      if (this.token) headers.authorization = `Bearer ${this.token}`;
      const address = new URL(this.address);
      address.searchParams.set("view", this.view);
      const answer = await fetch(address, {
        headers,
        signal: abort.signal,
        cache: "no-store",
      });
      if (answer.status === 401 || answer.status === 403) {
        sessionStorage.removeItem("scstream-token");
        this.tell("state", { state: "locked", refused: Boolean(this.token) });
        this.token = null;
        return;
      }
      if (!answer.ok) throw new Error(await refusal(answer));
      await this.listen(answer.body, abort);
      throw new Error("the service ended the connection");
    } catch (error) {
      if (abort !== this.abort) return; // a newer connection has taken over
      const reason = error instanceof TypeError ? "the service does not answer" : error.message;
      this.tell("state", { state: "lost", reason, again: this.pause });
      this.again = setTimeout(() => this.connect(), this.pause);
      this.pause = Math.min(2 * this.pause, LONGEST_PAUSE);
    }
  }

  /** Read events until the stream ends, or is silent for so long that it must be dead. */
  async listen(body, abort) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    const events = new EventParser((name, text) => this.tell(name, JSON.parse(text)));
    let watchdog;
    try {
      for (;;) {
        clearTimeout(watchdog);
        watchdog = setTimeout(() => abort.abort(new Error("the service fell silent")), SILENCE);
        const { value, done } = await reader.read();
        if (done) return;
        this.pause = FIRST_PAUSE;
        this.tell("state", { state: "live" });
        events.take(value);
      }
    } finally {
      clearTimeout(watchdog);
    }
  }
}

/** Puts chunks of a stream together and cuts them into events; comments are dropped. */
export class EventParser {
  constructor(found) {
    this.found = found;
    this.text = "";
  }

  take(chunk) {
    this.text += chunk;
    const parts = this.text.split("\n\n");
    this.text = parts.pop();
    for (const part of parts) {
      const fields = part
        .split("\n")
        .map((line) => [line.split(":", 1)[0], line.replace(/^[^:]*: ?/, "")]);
      const name = fields.find(([key]) => key === "event")?.[1];
      if (name)
        this.found(
          name,
          fields
            .filter(([key]) => key === "data")
            .map(([, value]) => value)
            .join("\n"),
        );
    }
  }
}

async function refusal(answer) {
  try {
    return (await answer.json()).detail ?? `the service answers ${answer.status}`;
  } catch {
    return `the service answers ${answer.status}`;
  }
}
