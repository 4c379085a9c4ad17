/** The server beside the page: questions, answers as they come, and what went wrong. */

import { traceOf } from "./source.js";

const KEY = "clearhead-key";

/** What the server refused, in its own words. */
export class Refusal extends Error {
  constructor({ error, advice = "", code = "" }, status) {
    super(error);
    Object.assign(this, { advice, code, status });
  }
}

/** The key for servers that ask for one; kept until the tab is closed. */
export function keepKey(key) {
  sessionStorage.setItem(KEY, key);
}

function headers(more = {}) {
  const key = sessionStorage.getItem(KEY);
  return key ? { ...more, authorization: `Bearer ${key}` } : more;
}

async function asked(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    gone(error);
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({ error: `The server said ${answer.status}.` }));
  throw new Refusal(told, answer.status);
}

function gone(error) {
  if (error.name === "AbortError") throw error;
  throw new Refusal(
    { error: "The server does not answer.", advice: "Is it still running? Then try again." },
    0,
  );
}

export async function get(path) {
  return (await asked(path, { headers: headers() })).json();
}

function posting(body, signal) {
  const type = { "content-type": "application/json" };
  return { method: "POST", headers: headers(type), body: JSON.stringify(body), signal };
}

export async function post(path, body, signal) {
  return (await asked(path, posting(body, signal))).json();
}

/** A look at live input. */
export async function look(body, signal) {
  const answer = await asked("/api/look", posting(body, signal));
  return traceOf(new Uint8Array(await answer.arrayBuffer()));
}

/** The events of a stream: yields [name, data] until `done`; an `error` is thrown. */
export async function* events(path, body, signal) {
  const options = body ? posting(body, signal) : { headers: headers(), signal };
  const answer = await asked(path, options);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read().catch(gone);
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const name = /^event: (.*)$/m.exec(part)?.[1];
      const data = /^data: (.*)$/m.exec(part)?.[1];
      if (!name || !data) continue; // a sign of life
      if (name === "error") throw new Refusal(JSON.parse(data), 200);
      yield [name, JSON.parse(data)];
    }
  }
}
