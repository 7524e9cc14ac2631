package coordinator

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/message"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// Messages that several functions print.
const (
	launcherFailed = "ibrun has failed on a node"
	nodeLost       = "the connection to a node is lost"
	outputLost     = "output was lost"
	noRecordings   = "traces or profiles of ranks cannot be used"
)

// printEnd prints on a node how the job has ended. As text, verbose prints first how long it took. As JSON the last message has
// that, and the exit code: a program that reads the messages of many jobs finds the result of each there.
func printEnd(s console.Streams, v *protocol.Outcome, node int, took time.Duration, verbose bool) {
	if verbose && !s.JSON() {
		s.Info(fmt.Sprintf("the job took %v", took.Round(time.Millisecond)), console.Attrs{})
	}
	for _, m := range v.MessagesOn(node) {
		s.Log(&m)
	}
	if !s.JSON() {
		return
	}
	end := message.Message{Level: slog.LevelInfo, Msg: "the job has ended",
		Attrs: console.Attrs{ExitCode: &v.Code, DurationSeconds: took.Seconds()}}
	if v.Code != 0 {
		end.Level = slog.LevelError
	}
	s.Log(&end)
}
