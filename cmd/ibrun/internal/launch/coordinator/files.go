package coordinator

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// fileChunk is how many bytes of a file one order has.
const fileChunk = 256 << 10

// ReceiveFile requests the file of a program from node 0, and passes its parts to write. size is its length in bytes. It must be
// called before RunJob.
func (cl *Cluster) ReceiveFile(program int, size int64, write func([]byte) error) error {
	cl.sendEvent(&protocol.Event{Kind: protocol.EventNeedFile, Code: program})
	var failed error
	for left := size; left > 0; {
		o, alive := <-cl.orders
		switch {
		case !alive:
			return fmt.Errorf("node 0 is lost: %w", cl.lost.err)
		case o.Outcome != nil:
			return exitcode.Errorf(o.Outcome.Code, "the job has ended: %s", strings.Join(o.Outcome.Lines(), "; "))
		case o.File == nil:
			cl.early = append(cl.early, o)
			continue
		case o.File.Err != "":
			return errors.New(o.File.Err)
		case o.File.Program != program || len(o.File.Data) == 0 || int64(len(o.File.Data)) > left:
			return errors.New("node 0 has sent another file")
		}
		left -= int64(len(o.File.Data))
		if failed == nil {
			failed = write(o.File.Data)
		}
	}
	return failed
}

// sendFile sends the file of a program to a node. It blocks while the node does not receive it.
func sendFile(c *control.Conn, program int, f protocol.ProgramFile) {
	err := func() error {
		file, err := os.Open(string(f.Path))
		if err != nil {
			return err
		}
		defer file.Close() // it was only read
		for left := f.Size; left > 0; {
			data := make([]byte, min(fileChunk, left))
			if _, err := io.ReadFull(file, data); err != nil {
				return err
			}
			left -= int64(len(data))
			encodeOrder(&protocol.Order{File: &protocol.FileChunk{Program: program, Data: data}})(c)
		}
		return nil
	}()
	if err != nil {
		encodeOrder(&protocol.Order{File: &protocol.FileChunk{Program: program, Err: err.Error()}})(c)
	}
}
