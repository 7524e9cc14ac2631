package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"runtime"

	"github.com/ibrun/ibrun/internal/ranklink"
)

// serveLink handles the messages of ibrun until the connection to it ends: it answers requests for the stacks of this
// process, and passes on which ranks have left the job. It runs beside the program's goroutines.
func (p *Process) serveLink(link *ranklink.Link) {
	for {
		m, err := link.Recv(context.Background())
		if err != nil && !errors.Is(err, ranklink.ErrMalformed) {
			return
		}
		switch {
		case err != nil:
		case m.Kind == ranklink.KindRequestStacks:
			if link.Send(ranklink.KindStacks, stacks()) != nil {
				return
			}
		case m.Kind == ranklink.KindLeft:
			var left ranklink.Left
			if m.Decode(&left) == nil && p.Left != nil { // a malformed message is ignored, as above
				p.Left(left.Ranks)
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
