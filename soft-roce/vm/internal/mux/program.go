package mux

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Command is a program to run on a node.
type Command struct {
	// Node is the number of the guest.
	Node int
	// Args are the program, looked up in the PATH of Env, and its arguments.
	Args []string
	// Dir is the working directory.
	Dir string
	// Env is the whole environment, NAME=VALUE.
	Env []string
}

// exit is the result of a program.
type exit struct {
	Code  int
	Error string // why it could not be started
}

// Run sends a command over conn and blocks until the program ends. It sends standard input, which may be nil, as the
// program reads it. A read of stdin that is pending at the end continues, and its result is lost. The code is the exit
// code of the program, or 128+N for signal N. Run returns an error if the program could not be started, with the exit
// code that a shell would return, or if the other end is lost.
//
// Run closes conn.
func Run(conn io.ReadWriteCloser, c Command, stdin io.Reader, stdout, stderr io.Writer) (code int, err error) {
	defer conn.Close()
	if err := SendCommand(conn, c); err != nil {
		return -1, fmt.Errorf("send the command: %w", err)
	}
	if stdin == nil {
		stdin = eof{}
	}
	go func() {
		// If the other end is lost, the loop below gets an error too.
		if _, err := io.Copy(frameWriter{conn, kindStdin}, stdin); err == nil {
			_ = frame{kind: kindStdin}.writeTo(conn)
		}
	}()
	for {
		f, err := decode(conn)
		switch {
		case err != nil:
			return -1, fmt.Errorf("waiting for %s to end: %w", c.Args[0], err)
		case f.kind == kindStdout:
			_, err = stdout.Write(f.data)
		case f.kind == kindStderr:
			_, err = stderr.Write(f.data)
		case f.kind == kindExit:
			var e exit
			if err := json.Unmarshal(f.data, &e); err != nil {
				return -1, fmt.Errorf("%w: %w", errFrame, err)
			}
			if e.Error != "" {
				err = errors.New(e.Error)
			}
			return e.Code, err
		default:
			err = fmt.Errorf("%w: kind %d", errFrame, f.kind)
		}
		if err != nil {
			return -1, fmt.Errorf("output of %s: %w", c.Args[0], err)
		}
	}
}

// eof is an empty standard input.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// frameWriter sends the written data in frames of one kind.
type frameWriter struct {
	to   io.Writer
	kind kind
}

func (p frameWriter) Write(b []byte) (int, error) {
	for sent := 0; sent < len(b); sent += pieceSize {
		piece := b[sent:min(sent+pieceSize, len(b))]
		if err := (frame{kind: p.kind, data: piece}).writeTo(p.to); err != nil {
			return sent, err
		}
	}
	return len(b), nil
}

// SendCommand writes the first frame of a program's stream.
func SendCommand(w io.Writer, c Command) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if len(data) > maxPayload {
		return fmt.Errorf("command and environment take %d bytes; at most %d can be sent", len(data), maxPayload)
	}
	return frame{kind: kindStart, data: data}.writeTo(w)
}

// SendReady reports over a separate stream that a guest is up.
func SendReady(w io.Writer) error { return frame{kind: kindReady}.writeTo(w) }

// Receive reads the first frame of a stream: a command, or nil if it reports that the guest is up.
func Receive(r io.Reader) (*Command, error) {
	f, err := decode(r)
	switch {
	case err != nil:
		return nil, err
	case f.kind == kindReady:
		return nil, nil
	case f.kind != kindStart:
		return nil, fmt.Errorf("%w: a stream that begins with kind %d", errFrame, f.kind)
	}
	c := &Command{}
	if err := json.Unmarshal(f.data, c); err != nil {
		return nil, fmt.Errorf("%w: %w", errFrame, err)
	}
	if len(c.Args) == 0 || c.Args[0] == "" {
		return nil, fmt.Errorf("%w: a command without a program", errFrame)
	}
	return c, nil
}

// Program is a received command, at the end that runs it.
type Program struct {
	stream *Stream
	send   sync.Mutex // standard output, standard error and the exit share the stream
}

// Serve returns the Program for a command received over a stream.
func Serve(st *Stream) *Program { return &Program{stream: st} }

// Context returns a context that is canceled when the stream ends.
func (p *Program) Context() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		p.stream.awaitEnd()
	}()
	return ctx, cancel
}

// Stdin copies standard input to w until the input ends, the stream ends, or w fails.
func (p *Program) Stdin(w io.Writer) error {
	for {
		f, err := decode(p.stream)
		switch {
		case err != nil:
			return err
		case f.kind != kindStdin:
			return fmt.Errorf("%w: kind %d", errFrame, f.kind)
		case len(f.data) == 0:
			return nil
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
}

// Stdout returns the program's standard output. Stdout and Stderr may be used concurrently.
func (p *Program) Stdout() io.Writer { return frameWriter{locked{p}, kindStdout} }

// Stderr returns the program's standard error.
func (p *Program) Stderr() io.Writer { return frameWriter{locked{p}, kindStderr} }

// locked serializes the frames of one stream.
type locked struct{ *Program }

func (l locked) Write(b []byte) (int, error) {
	l.send.Lock()
	defer l.send.Unlock()
	return l.stream.Write(b)
}

// Exit sends the exit code and closes the stream. It must be called after all output is written. A non-nil error is the
// reason why the program could not be started.
func (p *Program) Exit(code int, err error) error {
	e := exit{Code: code}
	if err != nil {
		e.Error = err.Error()
	}
	data, err := json.Marshal(e)
	if err == nil {
		err = frame{kind: kindExit, data: data}.writeTo(locked{p})
	}
	return errors.Join(err, p.stream.Close())
}

// Join copies bytes between two streams in both directions until both have ended, and closes them. When one ends, Join ends the
// other after the bytes in flight.
func Join(a, b io.ReadWriteCloser) {
	var both sync.WaitGroup
	for _, ends := range [][2]io.ReadWriteCloser{{a, b}, {b, a}} {
		both.Go(func() {
			// The close reports an error of the copy to the other end.
			_, _ = io.Copy(ends[0], ends[1])
			ends[0].Close()
		})
	}
	both.Wait()
}
