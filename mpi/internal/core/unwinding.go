package core

import (
	"fmt"
	"runtime"
)

// unwinding is why the deferred functions of a goroutine run although its function has not
// returned. The zero value says that they do not.
type unwinding struct {
	reason string // reasonPanic or reasonGoexit
	main   bool   // the goroutine is that of the function main
}

// Values of unwinding.reason.
const (
	reasonPanic  = "a panic"
	reasonGoexit = "runtime.Goexit"
)

// goexitCode is the exit code of a process whose function main calls runtime.Goexit: that of a
// program of Go that crashes.
const goexitCode = 2

// checkUnwinding returns an error if the caller, a call that waits for other processes or leaves
// them, runs because of a panic or of runtime.Goexit. The call then does nothing, so that the panic
// ends this process first, with its stack, and the launcher finds the process that has caused the
// end of the job. After a Goexit of the function main nothing else would end the process, so the
// job is aborted. No error handler runs: it could abort the job before the panic is printed.
func (p *Process) checkUnwinding(op string) error {
	u := findUnwinding()
	if u.reason == "" {
		return nil
	}
	if u.main && u.reason == reasonGoexit {
		p.recording.stopProfile()
		why := fmt.Sprintf("the function main of rank %d has called runtime.Goexit", p.boot.Rank)
		_ = p.boot.Abort(goexitCode, why) // it returns only in a test
	}
	return &Error{Class: ErrOther, Op: op, Rank: p.boot.Rank,
		Err: fmt.Errorf("it was called because of %s, so it has not waited for other processes", u.reason)}
}

// findUnwinding looks on the stack for a panic or runtime.Goexit that has called the caller, by a
// deferred function. Of several the last one counts, as it does for the Go runtime. A panic that a
// deferred function has recovered counts until that function returns, since the stack is the same
// until then.
func findUnwinding() (u unwinding) {
	var pcs [64]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		frames := runtime.CallersFrames(pcs[:n])
		for more := n > 0; more; {
			var f runtime.Frame
			f, more = frames.Next()
			switch {
			case f.Function == "runtime.main":
				u.main = true
			case u.reason != "": // the frames are those of earlier calls
			case f.Function == "runtime.gopanic":
				u.reason = reasonPanic
			case f.Function == "runtime.Goexit":
				u.reason = reasonGoexit
			}
		}
		if n < len(pcs) {
			return u
		}
	}
}
