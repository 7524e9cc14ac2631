// Package jobsocket has what both sides of the status sockets need: the messages, and the directories and the checks of the
// sockets. An ibrun listens on one socket for its job:
//
//	for _, dir := range jobsocket.Dirs(os.Getenv) {
//		err := jobsocket.CheckPrivate(dir, fs.ModeDir)
//		...
//	}
//
// A connection carries one request, a JSON value on one line, and one response, a JSON value, after which the server closes it.
// Both sides ignore unknown fields. The server is in cmd/ibrun/internal/inspect, the client in perf/jobs.
package jobsocket
