package coordinator

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
)

const (
	// fileChunk is how many bytes of a file one order has.
	fileChunk = 256 << 10
	// maxEarly is how many signals, orders to end the ranks, and ends of the input a node keeps that arrive before the file is
	// complete. Signals that were sent several times count once: see addSignal.
	maxEarly = 1 << 12
)

// earlyOrders are the orders that a node has received before it has started its ranks. Other nodes may have started theirs long
// ago, so the ranks that have left are kept in one order.
type earlyOrders struct {
	list  []*protocol.Order
	left  *protocol.Order // one of list; nil: no rank has left
	input int             // bytes of the standard input of rank 0
	count int             // of the orders that maxEarly is about
}

// add keeps an order. An error means that the coordinator does not follow the protocol: it has sent
// more than a job can cause.
func (e *earlyOrders) add(o *protocol.Order) error {
	why := ""
	switch {
	case o.Question != nil, o.Answer != nil:
		return nil // nobody waits for the answer any more when the ranks run
	case o.Left != nil && e.left != nil:
		if e.left.Left = append(e.left.Left, o.Left...); len(e.left.Left) > placement.MaxRanks {
			why = "it has announced more ranks than a job has"
		}
		o = nil
	case o.Left != nil:
		e.left = o
	case o.Input != nil && len(o.Input.Data) > 0:
		if e.input += len(o.Input.Data); e.input > maxUnreadInput {
			why = "it has sent more standard input than is read"
		}
	case o.Signal != 0:
		before := len(e.list)
		e.list = addSignal(e.list, o, o.Signal, func(kept *protocol.Order, signal int) bool { return kept.Signal == signal })
		e.count += len(e.list) - before
		o = nil
	case o.End != nil, o.Input != nil:
		e.count++
	default:
		why = fmt.Sprintf("it has sent an order (%s) before the ranks run", setFields(o)[0])
	}
	if e.count > maxEarly {
		why = fmt.Sprintf("it has sent more than %d signals and other short orders before the ranks run", maxEarly)
	}
	if why != "" {
		return protocolError(why)
	}
	if o != nil {
		e.list = append(e.list, o)
	}
	return nil
}

// setFields returns the names of the fields of an order that are set. A valid order has one.
func setFields(o *protocol.Order) (names []string) {
	v := reflect.ValueOf(o).Elem()
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			names = append(names, v.Type().Field(i).Name)
		}
	}
	return names
}

// checkFields returns an error unless an order has exactly one content.
func checkFields(o *protocol.Order) error {
	if names := setFields(o); len(names) != 1 {
		return protocolError(fmt.Sprintf("it has sent an order with %d contents (%s)", len(names), strings.Join(names, ", ")))
	}
	if o.Outcome != nil && !isCode(o.Outcome.Code) {
		return protocolError(fmt.Sprintf("it has sent the exit code %d", o.Outcome.Code))
	}
	return nil
}

// checkEarly returns an error for an order that the coordinator does not send before the ranks of
// this node run.
func checkEarly(o *protocol.Order) error {
	if err := checkFields(o); err != nil {
		return err
	}
	if o.Outcome != nil && o.Outcome.Code == 0 {
		return protocolError("it says that the job has succeeded, before the ranks run")
	}
	return nil
}

// isCode reports whether a process can exit with this code.
func isCode(code int) bool { return code >= 0 && code <= 255 }

// ReceiveFile requests the file of a program from the coordinator, and passes its parts to write.
// size is its length in bytes. It must be called before RunJob. An empty file has one part, so that
// the coordinator can say why it cannot read it.
func (cl *Cluster) ReceiveFile(program int, size int64, write func([]byte) error) error {
	cl.sendEvent(&protocol.Event{Kind: protocol.EventNeedFile, Code: program})
	var failed error
	for left, received := size, false; left > 0 || !received; {
		o, alive := <-cl.orders
		if !alive {
			return cl.coordinatorLost(cl.lost)
		}
		if err := checkEarly(o); err != nil {
			return cl.refuseCoordinator(err)
		}
		switch {
		case o.Outcome != nil:
			return exitcode.Errorf(o.Outcome.Code, "the job has ended: %s", strings.Join(o.Outcome.Lines(), "; "))
		case o.File == nil:
			if err := cl.early.add(o); err != nil {
				return cl.refuseCoordinator(err)
			}
			continue
		case o.File.Err != "":
			return errors.New(o.File.Err)
		case o.File.Program != program || (len(o.File.Data) == 0) != (size == 0) || int64(len(o.File.Data)) > left:
			return cl.refuseCoordinator(protocolError("it has sent another file than was requested"))
		}
		received = true
		left -= int64(len(o.File.Data))
		if failed == nil {
			failed = write(o.File.Data)
		}
	}
	return failed
}

// sendFile sends the file of a program to a node. It blocks while the node does not receive it.
func sendFile(c *control.Conn, program int, f protocol.ProgramFile) {
	if err := sendChunks(c, program, f); err != nil {
		sendOwn(c, &protocol.Order{File: &protocol.FileChunk{Program: program, Err: err.Error()}})
	}
}

// sendChunks sends all parts of a file, at least one.
func sendChunks(c *control.Conn, program int, f protocol.ProgramFile) error {
	file, err := os.Open(string(f.Path))
	if err != nil {
		return err
	}
	defer file.Close() // it was only read
	for left, sent := f.Size, false; left > 0 || !sent; sent = true {
		data := make([]byte, min(fileChunk, left))
		if _, err := io.ReadFull(file, data); err != nil {
			return err
		}
		left -= int64(len(data))
		sendOwn(c, &protocol.Order{File: &protocol.FileChunk{Program: program, Data: data}})
	}
	return nil
}
