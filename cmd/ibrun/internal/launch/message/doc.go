// Package message defines the messages of ibrun itself, in both forms that --log-format selects. What ranks write is not a
// message.
//
//	m := message.Message{Level: slog.LevelWarn, Msg: "the ranks cannot be monitored", Attrs: message.Attrs{Error: err.Error()}}
//	m.Lines()       // "the ranks cannot be monitored: no space left on device"
//	m.JSON(now)     // {"time":"...","level":"WARN","msg":"the ranks cannot be monitored","error":"no space left on device"}
//
// A message travels between the nodes of a job in JSON, so that every node prints it in its own format.
package message
