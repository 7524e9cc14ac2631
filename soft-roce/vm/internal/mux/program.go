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

// exit is how a program ended.
type exit struct {
	Code  int
	Error string // why it could not be started
}

// Run sends a command over conn and stays with it until it ends. Standard input, which may be nil, is passed on piece
// by piece as the program takes it; a read that is under way at the end goes on and its result is lost. The code is
// the program's exit code, 128+N for signal N. The error is for a program that could not be started, with the code
// that a shell would give, and for the loss of the other end.
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
		// If the other end is gone, the loop below hears it too.
		if _, err := io.Copy(pieces{conn, kindStdin}, stdin); err == nil {
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

// eof is a standard input with nothing in it.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// pieces sends what is written to it in frames of one kind.
type pieces struct {
	to   io.Writer
	kind kind
}

func (p pieces) Write(b []byte) (int, error) {
	for sent := 0; sent < len(b); sent += pieceSize {
		piece := b[sent:min(sent+pieceSize, len(b))]
		if err := (frame{kind: p.kind, data: piece}).writeTo(p.to); err != nil {
			return sent, err
		}
	}
	return len(b), nil
}

// SendCommand writes the frame with which a program's stream begins.
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

// SendHello says over a stream of its own that a guest is up.
func SendHello(w io.Writer) error { return frame{kind: kindHello}.writeTo(w) }

// Receive reads the first frame of a stream: a command, or nil for a guest's hello.
func Receive(r io.Reader) (*Command, error) {
	f, err := decode(r)
	switch {
	case err != nil:
		return nil, err
	case f.kind == kindHello:
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

// Program is a command that was received, seen by the end that runs it.
type Program struct {
	stream *Stream
	send   sync.Mutex // standard output, standard error and the exit share the stream
}

// Serve prepares to run a command that came over a stream.
func Serve(st *Stream) *Program { return &Program{stream: st} }

// Context ends when nobody waits for the program any more.
func (p *Program) Context() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		p.stream.awaitEnd()
	}()
	return ctx, cancel
}

// Stdin passes standard input to w until it ends, w fails or nobody sends any more.
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

// Stdout is the program's standard output. It may be used while Stderr is.
func (p *Program) Stdout() io.Writer { return pieces{locked{p}, kindStdout} }

// Stderr is the program's standard error.
func (p *Program) Stderr() io.Writer { return pieces{locked{p}, kindStderr} }

// locked keeps the frames of one stream undivided.
type locked struct{ *Program }

func (l locked) Write(b []byte) (int, error) {
	l.send.Lock()
	defer l.send.Unlock()
	return l.stream.Write(b)
}

// Exit says how the program ended, after all its output, and closes the stream. A non-nil error is why it could not
// be started.
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

// Join passes bytes between two streams, in both directions, until both have ended, and closes them. If one ends, so
// does the other, after what was on its way.
func Join(a, b io.ReadWriteCloser) {
	var both sync.WaitGroup
	for _, way := range [][2]io.ReadWriteCloser{{a, b}, {b, a}} {
		both.Go(func() {
			// Whatever ends it, the other end learns by the end of its stream.
			_, _ = io.Copy(way[0], way[1])
			way[0].Close()
		})
	}
	both.Wait()
}
