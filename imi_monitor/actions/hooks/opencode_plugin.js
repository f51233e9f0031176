// imi's plugin, version 2: tells imi what opencode does, and gives opencode the answers that a person gives in imi, if they come
// before those in its own dialog. It prints nothing; `imi hooks uninstall` removes it.
import { spawn, spawnSync } from "node:child_process"
import { existsSync } from "node:fs"

const PROGRAM = "@PROGRAM@"
const ANSWERS = "@ANSWERS@"
const LONGEST = 2000

const short = (value) => (typeof value === "string" ? value.slice(0, LONGEST) : undefined)

const shortened = (input) => {
  const kept = {}
  for (const [key, value] of Object.entries(input ?? {})) if (typeof value === "string") kept[key] = short(value)
  return kept
}

export const ImiHooks = async ({ directory, client }) => {
  const last = new Map()
  const waiting = new Map() // question -> its session, and the program that waits for imi's answer

  const close = (isClosed) => {
    for (const [ask, { session, program }] of waiting)
      if (isClosed(ask, session)) {
        waiting.delete(ask)
        program.kill()
      }
  }
  process.on("exit", () => close(() => true))

  const post = (answer) => {
    const headers = { "Content-Type": "application/json" }
    return client._client.post({ url: answer.post, body: answer.body, headers })
  }

  // opencode started by imi is answered another way; the program itself sees to that
  const offer = (ask, session_id, event) => {
    try {
      if (!ask || !session_id || !existsSync(ANSWERS)) return
      const program = spawn("/bin/sh", [ANSWERS, "opencode"], { stdio: ["pipe", "pipe", "ignore"] })
      let said = ""
      waiting.set(ask, { session: session_id, program })
      program.on("error", () => waiting.delete(ask))
      program.stdin.on("error", () => {})
      program.stdout.on("data", (data) => (said += data))
      program.on("close", () => {
        waiting.delete(ask)
        if (said) Promise.resolve(said).then(JSON.parse).then(post).catch(() => {}) // too late: it is answered in opencode
      })
      const record = { type: event.type, properties: { ...event.properties, metadata: shortened(event.properties.metadata) } }
      program.stdin.end(JSON.stringify({ hook_event_name: event.type, session_id, cwd: directory, ask, record }))
    } catch {
      // its own dialog is there
    }
  }

  const tell = (hook_event_name, session_id, more) => {
    try {
      if (!session_id || !existsSync(PROGRAM)) return
      const input = JSON.stringify({ hook_event_name, session_id, cwd: directory, ...more })
      spawnSync("/bin/sh", [PROGRAM, "opencode"], { input, stdio: ["pipe", "ignore", "ignore"], timeout: 2000 })
    } catch {
      // whatever it is: the person's session goes on
    }
  }

  const status = (session, now) => {
    const type = now?.type
    const said = type === "retry" ? `retry ${now.attempt}: ${short(now.message) ?? "?"}` : undefined
    const key = `${type} ${said ?? ""}`
    if (!["busy", "retry", "idle"].includes(type) || last.get(session) === key) return
    last.set(session, key)
    if (type === "idle") close((_, of) => of === session)
    tell(type, session, { text: said })
  }

  return {
    event: async ({ event }) => {
      const about = event?.properties ?? {}
      const session = about.sessionID
      switch (event?.type) {
        case "session.created":
        case "session.deleted":
          return tell(event.type, session ?? about.info?.id, { title: short(about.info?.title), parent: about.info?.parentID })
        case "session.status":
          return status(session, about.status)
        case "session.error":
          return tell(event.type, session, { error: about.error?.name, text: short(about.error?.data?.message) ?? about.error?.name })
        case "permission.asked":
          offer(about.id, session, event)
          return tell(event.type, session, {
            ask: about.id,
            text: about.permission,
            tool_name: about.permission,
            tool_use_id: about.tool?.callID,
            tool_input: shortened(about.metadata),
          })
        case "question.asked":
          offer(about.id, session, event)
          return tell(event.type, session, { ask: about.id, text: short(about.questions?.[0]?.question) })
        case "permission.replied":
        case "question.replied":
        case "question.rejected":
          close((ask) => ask === about.requestID)
          return tell(event.type, session, { ask: about.requestID, text: about.reply })
      }
    },
    "tool.execute.before": async (input, output) => {
      tell("tool.before", input?.sessionID, { tool_name: input?.tool, tool_use_id: input?.callID, tool_input: shortened(output?.args) })
    },
    "tool.execute.after": async (input) => {
      tell("tool.after", input?.sessionID, { tool_name: input?.tool, tool_use_id: input?.callID, tool_input: shortened(input?.args) })
    },
  }
}
