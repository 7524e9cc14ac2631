package core

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

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

// callPosition returns the source position of the innermost call that is not in the library, as
// "dir/file.go:31". It is empty in a goroutine of the library.
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

// checkUnfinished returns an error if a message to this process was never received, or a request
// never completed. It is called by all processes when no further message will be sent. c has all of
// them.
func checkUnfinished(c *Comm) error {
	sent := c.engine.Checks().Sent()
	arrive := make([]uint64, len(sent))
	x := &Collective{Kind: perf.Alltoall, as: perf.Finalize.Within(), Dst: Bytes(arrive), Src: Bytes(sent),
		Elements: numbersOf[uint64]()}
	if err := c.coll.Call(x); err != nil {
		return err
	}
	return c.engine.Checks().Unfinished(arrive)
}

// isChecked reports whether calls on this communicator are checked.
func (c *Comm) isChecked() bool { return c != nil && c.checks }
