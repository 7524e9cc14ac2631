package core

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/notes"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// checkFromEnv reads IBRUN_CHECK.
func checkFromEnv(getenv func(string) string) (bool, error) {
	text := getenv("IBRUN_CHECK")
	if text == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("IBRUN_CHECK=%q: want 0 or 1", text)
	}
	return on, nil
}

// libraryFunctions are the beginnings of the names of the functions that callPosition skips.
var libraryFunctions = [...]string{"github.com/ibrun/ibrun/mpi.", "github.com/ibrun/ibrun/mpi/internal/", "runtime.",
	"github.com/ibrun/ibrun/perf.", "sync."}

// callPosition returns the source position of the innermost call that is not in the library, as "dir/file.go:31". It is empty in
// a goroutine of the library.
func callPosition() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		library := slices.ContainsFunc(libraryFunctions[:], func(prefix string) bool { return strings.HasPrefix(f.Function, prefix) })
		if !library && f.File != "" {
			dir, file := filepath.Split(f.File)
			return filepath.Join(filepath.Base(dir), file) + ":" + strconv.Itoa(f.Line)
		}
		if !more {
			return ""
		}
	}
}

// setWhere sets the source position of an error, unless an error that it wraps has it.
func (e *Error) setWhere() {
	var inner *Error
	if e.Where = callPosition(); errors.As(e.Err, &inner) && inner.Where == e.Where {
		e.Where = ""
	}
}

// reportUnfreed reports communicators that were never freed, which is not an error.
func (p *Process) reportUnfreed(comms []*Comm) {
	comms = slices.DeleteFunc(slices.Clone(comms), func(c *Comm) bool { return c == p.world || c == p.self })
	if len(comms) > 0 && p.boot.Report != nil {
		p.boot.Report(fmt.Sprintf("communicators that were never freed: %d; the first was created at %s", len(comms), comms[0].where))
	}
}

// checkUnfinished returns an error if a message to this process was never received, or a request never completed. It is called by
// all processes when no further message will be sent. c has all of them.
func (c *Comm) checkUnfinished() error {
	sent := c.engine.Checks().Sent()
	arrive := make([]uint64, len(sent))
	x := &Collective{Kind: perf.Alltoall, as: perf.Finalize.Within(), Dst: Bytes(arrive), Src: Bytes(sent),
		Elements: NumbersOf[uint64]()}
	if err := c.coll.Call(x); err != nil {
		return err
	}
	return c.engine.Checks().Unfinished(arrive)
}

// IsChecked reports whether calls on this communicator are checked.
func (c *Comm) IsChecked() bool { return c != nil && c.checks }

// newNote returns the note of a call, and records the call.
func (p *Process) newNote(call perf.Op, k datatype.Kind) *notes.Note {
	p.engine.Recording().Called(call)
	return &notes.Note{Type: k.String(), Op: call, Where: callPosition()}
}

// SendChecked is Send with a note, for communicators whose calls are checked. The note names the element kind, the call and its
// source position; it travels with the message.
func (c *Comm) SendChecked(call perf.Op, b []byte, k datatype.Kind, dst, tag int, m proto.Mode) error {
	began := c.engine.Recording().BeginOp(call, len(b))
	r, err := c.IsendChecked(call.Within(), b, k, dst, tag, m)
	if err == nil {
		_, err = c.engine.WaitAs(call.Within(), r.h)
		err = c.wrapError(call.String(), err)
	}
	c.engine.Recording().EndOp(call, len(b), began)
	return err
}

// IsendChecked is Isend with a note.
func (c *Comm) IsendChecked(call perf.Op, b []byte, k datatype.Kind, dst, tag int, m proto.Mode) (Request, error) {
	note := c.proc.newNote(call, k)
	to, ok := c.fastSendRoute(dst, tag)
	if !ok {
		var err error
		if to, err = c.slowSendRoute(call.String(), dst, tag); err != nil {
			return Request{}, err
		}
	}
	to.Op = call
	h, err := c.engine.IsendNoted(to, b, m, note)
	if err != nil {
		return Request{}, c.wrapError(call.String(), err)
	}
	return Request{h}, nil
}

// SendInitChecked is SendInit with a note.
func (c *Comm) SendInitChecked(op string, b []byte, k datatype.Kind, dst, tag int, m proto.Mode) (Request, error) {
	note := c.proc.newNote(perf.Start, k)
	r, err := c.SendInit(op, b, dst, tag, m)
	if err == nil {
		c.engine.Checks().SetNote(r.h, note)
	}
	return r, err
}

// RecvChecked is Recv with a note.
func (c *Comm) RecvChecked(b []byte, k datatype.Kind, src, tag int) (Status, error) {
	const call = perf.Recv
	began := c.engine.Recording().BeginOp(call, len(b))
	r, err := c.IrecvChecked(call.Within(), b, k, src, tag)
	if err != nil {
		return emptyStatus, err
	}
	st, err := c.engine.WaitAs(call.Within(), r.h)
	c.engine.Recording().EndOp(call, st.Bytes, began)
	return statusOf(st), c.wrapError(call.String(), err)
}

// IrecvChecked is Irecv with a note.
func (c *Comm) IrecvChecked(call perf.Op, b []byte, k datatype.Kind, src, tag int) (Request, error) {
	note := c.proc.newNote(call, k)
	from, err := c.recvRoute(call.String(), src, tag)
	if err != nil {
		return Request{}, err
	}
	from.Op = call
	return Request{c.engine.IrecvNoted(from, b, note)}, nil
}

// RecvInitChecked is RecvInit with a note.
func (c *Comm) RecvInitChecked(b []byte, k datatype.Kind, src, tag int) (Request, error) {
	note := c.proc.newNote(perf.Start, k)
	r, err := c.RecvInit(b, src, tag)
	if err == nil {
		c.engine.Checks().SetNote(r.h, note)
	}
	return r, err
}

// SendrecvChecked is Sendrecv with notes.
func (c *Comm) SendrecvChecked(s []byte, sk datatype.Kind, dst, stag int, r []byte, rk datatype.Kind, src, rtag int) (
	Status, error,
) {
	const call = perf.Sendrecv
	if overlap(s, r) {
		return emptyStatus, c.newError(call.String(), ErrBuffer, errOverlap)
	}
	began := c.engine.Recording().BeginOp(call, len(s)+len(r))
	in, err := c.IrecvChecked(call.Within(), r, rk, src, rtag)
	if err != nil {
		return emptyStatus, err
	}
	out, err := c.IsendChecked(call.Within(), s, sk, dst, stag, proto.Standard)
	if err == nil {
		_, err = c.engine.WaitAs(call.Within(), out.h)
		err = c.wrapError(call.String(), err)
	}
	if err != nil {
		c.cancelRecv(in.h)
		return emptyStatus, err
	}
	st, err := c.engine.WaitAs(call.Within(), in.h)
	c.engine.Recording().EndOp(call, len(s)+st.Bytes, began)
	return statusOf(st), c.wrapError(call.String(), err)
}
