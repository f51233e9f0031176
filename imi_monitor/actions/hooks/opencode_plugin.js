// imi's plugin, version 1: tells imi what opencode does. It changes nothing and prints nothing; `imi hooks uninstall` removes it.
import { spawnSync } from "node:child_process"
import { existsSync } from "node:fs"

const PROGRAM = "@PROGRAM@"
const LONGEST = 2000

const short = (value) => (typeof value === "string" ? value.slice(0, LONGEST) : undefined)

const shortened = (input) => {
  const kept = {}
  for (const [key, value] of Object.entries(input ?? {})) if (typeof value === "string") kept[key] = short(value)
  return kept
}

export const ImiHooks = async ({ directory }) => {
  const last = new Map()

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
          return tell(event.type, session, {
            ask: about.id,
            text: about.permission,
            tool_name: about.permission,
            tool_use_id: about.tool?.callID,
            tool_input: shortened(about.metadata),
          })
        case "permission.replied":
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
