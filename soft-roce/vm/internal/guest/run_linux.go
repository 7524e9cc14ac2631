package guest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/soft-roce/vm/internal/mux"
)

// Exit codes of programs that were not started, as shells give them.
const (
	codeNotExecutable = 126
	codeNotFound      = 127
)

// run runs a program until it ends, or kills it when its stream ends. It does not wait for child processes of the program: they
// may continue, as after a login through ssh.
func run(c *mux.Command, p *mux.Program) (code int, err error) {
	path, err := lookUp(c)
	if err != nil {
		return codeNotFound, err
	}
	ctx, cancel := p.Context()
	defer cancel()
	cmd := exec.CommandContext(ctx, path)
	cmd.Args, cmd.Dir, cmd.Env = c.Args, c.Dir, c.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

	stdin, stdinEnd, err := os.Pipe()
	if err != nil {
		return codeNotExecutable, err
	}
	defer stdinEnd.Close()
	cmd.Stdin = stdin
	var out [2]*output
	for i, to := range []io.Writer{p.Stdout(), p.Stderr()} {
		if out[i], err = newOutput(to); err != nil {
			return codeNotExecutable, err
		}
		defer out[i].reader.Close()
	}
	cmd.Stdout, cmd.Stderr = out[0].program, out[1].program
	err = cmd.Start()
	for _, f := range []*os.File{stdin, out[0].program, out[1].program} {
		f.Close()
	}
	if err != nil {
		return codeNotExecutable, fmt.Errorf("start %s: %w", c.Args[0], err)
	}
	go func() {
		p.Stdin(stdinEnd) // fails when the program or the stream ends: then run ends as well
		stdinEnd.Close()
	}()
	var copying sync.WaitGroup
	for _, o := range out {
		copying.Go(func() { o.copy() })
	}
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return -1, err
	}
	for _, o := range out {
		o.programEnded()
	}
	copying.Wait()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

// output is a pipe from a program.
type output struct {
	program *os.File // the end to write to
	reader  *os.File // the end to read from
	to      io.Writer
}

func newOutput(to io.Writer) (*output, error) {
	end, program, err := os.Pipe()
	return &output{program: program, reader: end, to: to}, err
}

// copy copies the output of the program until it has ended and all its output is copied. It does not wait for other processes
// that have the pipe open.
func (o *output) copy() {
	buf := make([]byte, 32<<10)
	for {
		n, err := o.reader.Read(buf)
		if _, errTo := o.to.Write(buf[:n]); errTo != nil {
			return // the stream has ended: run kills the program
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			o.drain(buf)
			return
		}
		if err != nil {
			return
		}
	}
}

// programEnded wakes copy, which then copies the content of the pipe and returns.
func (o *output) programEnded() { o.reader.SetReadDeadline(time.Unix(1, 0)) }

// drain copies the content of the pipe.
func (o *output) drain(buf []byte) {
	o.reader.SetReadDeadline(time.Time{})
	raw, err := o.reader.SyscallConn()
	if err != nil {
		return
	}
	for n := 1; n > 0; {
		raw.Read(func(fd uintptr) bool {
			n, err = unix.Read(int(fd), buf)
			return true // do not wait for the pipe
		})
		if n > 0 {
			if _, err := o.to.Write(buf[:n]); err != nil {
				return
			}
		}
	}
}

// lookUp returns the path of a program, as a shell finds it.
func lookUp(c *mux.Command) (string, error) {
	name := c.Args[0]
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(c.Dir, name)
		}
		_, err := os.Stat(name)
		return name, err
	}
	for _, v := range c.Env {
		path, ok := strings.CutPrefix(v, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(path) {
			file := filepath.Join(dir, name)
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return file, nil
			}
		}
	}
	return "", fmt.Errorf("%s: %w in the guest's PATH", name, fs.ErrNotExist)
}
