package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"runtime"

	"github.com/ibrun/ibrun/internal/ranklink"
)

// serveStackRequests serves what ibrun asks of a process while it runs, whatever its other goroutines do, until ibrun has gone.
func serveStackRequests(link *ranklink.Link) {
	for {
		m, err := link.Recv(context.Background())
		if err != nil && !errors.Is(err, ranklink.ErrMalformed) {
			return
		}
		if err == nil && m.Kind == ranklink.KindAskStacks {
			if link.Send(ranklink.KindStacks, stacks()) != nil {
				return
			}
		}
	}
}

// maxStackBytes is how much the runtime is asked to write of all goroutines.
const maxStackBytes = 256 << 10

// stacks are those of all goroutines but the calling one, which the runtime writes first.
func stacks() ranklink.Stacks {
	text := make([]byte, maxStackBytes)
	text = text[:runtime.Stack(text, true)]
	cut := len(text) == maxStackBytes
	_, text, _ = bytes.Cut(text, []byte("\n\n"))
	if len(text) > ranklink.MaxStacks {
		text, cut = text[:ranklink.MaxStacks], true
	}
	if cut { // after a whole goroutine, if there is one
		if end := bytes.LastIndex(text, []byte("\n\n")); end > 0 {
			text = text[:end]
		}
	}
	return ranklink.Stacks{Text: string(bytes.TrimSuffix(text, []byte("\n"))) + "\n", Cut: cut}
}
