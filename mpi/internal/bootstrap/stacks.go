package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"runtime"

	"github.com/ibrun/ibrun/internal/ranklink"
)

// serveStackRequests answers requests of ibrun for the stacks of this process, until the connection to ibrun ends. It
// runs beside the program's goroutines.
func serveStackRequests(link *ranklink.Link) {
	for {
		m, err := link.Recv(context.Background())
		if err != nil && !errors.Is(err, ranklink.ErrMalformed) {
			return
		}
		if err == nil && m.Kind == ranklink.KindRequestStacks {
			if link.Send(ranklink.KindStacks, stacks()) != nil {
				return
			}
		}
	}
}

// maxStackBytes limits the text of all stacks that the runtime writes.
const maxStackBytes = 256 << 10

// stacks returns the stacks of all goroutines except the calling one, which the runtime writes first.
func stacks() ranklink.Stacks {
	text := make([]byte, maxStackBytes)
	text = text[:runtime.Stack(text, true)]
	cut := len(text) == maxStackBytes
	_, text, _ = bytes.Cut(text, []byte("\n\n"))
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
