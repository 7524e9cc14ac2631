package bootstrap

import (
	"bytes"
	"runtime"

	"github.com/ibrun/ibrun/internal/ranklink"
)

// maxStackBytes limits the text of all stacks that the runtime writes.
const maxStackBytes = 256 << 10

// stacks returns the stacks of all goroutines except the calling one, which the runtime writes first.
func stacks() ranklink.Stacks {
	text := make([]byte, maxStackBytes)
	text = text[:runtime.Stack(text, true)]
	cut := len(text) == maxStackBytes
	_, text, _ = bytes.Cut(text, []byte("\n\n"))
	text = withoutWatcher(text)
	if len(text) > ranklink.MaxStacks {
		text, cut = text[:ranklink.MaxStacks], true
	}
	if cut { // remove an incomplete last goroutine, unless it is the only one
		if end := bytes.LastIndex(text, []byte("\n\n")); end > 0 {
			text = text[:end]
		}
	}
	return ranklink.Stacks{Text: string(bytes.TrimSuffix(text, []byte("\n"))) + "\n", Truncated: cut}
}

// watcherMark is in the stack of the goroutine that waits for the ends of other processes.
const watcherMark = "created by github.com/ibrun/ibrun/internal/wakesock.Watch"

// withoutWatcher removes the goroutine that waits for the ends of other processes, which is not the user's.
func withoutWatcher(text []byte) []byte {
	var kept [][]byte
	for stack := range bytes.SplitSeq(text, []byte("\n\n")) {
		if !bytes.Contains(stack, []byte(watcherMark)) {
			kept = append(kept, stack)
		}
	}
	return bytes.Join(kept, []byte("\n\n"))
}
