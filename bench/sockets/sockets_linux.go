package sockets

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Serve waits for one Call and answers it.
func Serve(t Test) error {
	if err := t.check(); err != nil {
		return err
	}
	listener, err := newSocket()
	if err != nil {
		return err
	}
	at := &unix.SockaddrInet4{Port: t.Port, Addr: [4]byte{127, 0, 0, 1}}
	fd := -1
	if err = os.NewSyscallError("bind", unix.Bind(listener, at)); err == nil {
		err = os.NewSyscallError("listen", unix.Listen(listener, 1))
	}
	if err == nil {
		fd, _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC)
		err = os.NewSyscallError("accept", err)
	}
	if err = errors.Join(err, unix.Close(listener)); err != nil {
		return fmt.Errorf("sockets: %w", err)
	}
	_, err = t.run(fd, false)
	return err
}

// Call measures with a process that runs Serve. It returns the figure of each size, in the units of package bench.
func Call(t Test) (map[int]float64, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	fd, err := newSocket()
	if err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: t.Port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return nil, errors.Join(fmt.Errorf("sockets: connect: %w", err), unix.Close(fd))
	}
	return t.run(fd, true)
}

func newSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("sockets: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return -1, errors.Join(fmt.Errorf("sockets: %w", err), unix.Close(fd))
	}
	return fd, nil
}

// run measures all sizes over a connection and closes it.
func (t Test) run(fd int, caller bool) (figures map[int]float64, err error) {
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return nil, fmt.Errorf("sockets: %w", err)
	}
	figures = map[int]float64{}
	for _, size := range t.Sizes {
		s := side{fd: fd, caller: caller, out: make([]byte, size), in: make([]byte, size)}
		round, bytes := s.pingPong, 0
		if t.Op == "bw" {
			round, bytes = s.stream, window*size
		}
		n := t.rounds(size)
		var began time.Time
		for i := range n + n/10 + 1 {
			if i == n/10+1 {
				began = time.Now() // the first rounds are for warming up
			}
			if err := round(); err != nil {
				return nil, fmt.Errorf("sockets: %d bytes: %w", size, err)
			}
		}
		const micro, mega = 1e6, 1e6
		each := time.Since(began).Seconds() / float64(n)
		if figures[size] = each / 2 * micro; bytes > 0 {
			figures[size] = float64(bytes) / each / mega
		}
	}
	return figures, nil
}

// side is one end of the connection.
type side struct {
	fd      int
	caller  bool
	out, in []byte
}

// pingPong exchanges a message and its answer.
func (s *side) pingPong() error {
	if s.caller {
		if err := s.send(s.out); err != nil {
			return err
		}
		return s.receive(s.in)
	}
	if err := s.receive(s.in); err != nil {
		return err
	}
	return s.send(s.out)
}

// stream exchanges a window of messages and its answer.
func (s *side) stream() error {
	for range window {
		var err error
		if s.caller {
			err = s.send(s.out)
		} else {
			err = s.receive(s.in)
		}
		if err != nil {
			return err
		}
	}
	if s.caller {
		return s.receive(s.in[:1])
	}
	return s.send(s.out[:1])
}

// send sends all of b. It spins until the socket takes it.
func (s *side) send(b []byte) error {
	for len(b) > 0 {
		n, errno := send(s.fd, b)
		if errno != 0 && errno != unix.EAGAIN {
			return os.NewSyscallError("send", errno)
		}
		b = b[n:]
	}
	return nil
}

// receive fills b. It spins until all bytes have arrived.
func (s *side) receive(b []byte) error {
	for len(b) > 0 {
		n, errno := receive(s.fd, b)
		if errno != 0 && errno != unix.EAGAIN {
			return os.NewSyscallError("recv", errno)
		}
		if n == 0 && errno == 0 {
			return errors.New("the peer has closed the connection")
		}
		b = b[n:]
	}
	return nil
}
