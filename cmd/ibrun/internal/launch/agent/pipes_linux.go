package agent

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/ranklink"
)

// rankPipes contains the agent's ends of the connections to one rank, and the rank's ends in the same order.
type rankPipes struct {
	stdout, stderr, pmi *os.File
	link                *ranklink.Link
	rankEnds            []*os.File
}

func openPipes() (w *rankPipes, err error) {
	w = &rankPipes{}
	defer func() {
		if err != nil {
			w.closeAgentEnds()
			w.closeRankEnds()
			w = nil
		}
	}()
	for _, ours := range []**os.File{&w.stdout, &w.stderr} {
		var fds [2]int
		if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			return w, fmt.Errorf("open pipe for output: %w", err)
		}
		if err := w.add(ours, fds[0], fds[1]); err != nil {
			return w, err
		}
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return w, fmt.Errorf("open sockets for PMI: %w", err)
	}
	if err := w.add(&w.pmi, fds[0], fds[1]); err != nil {
		return w, err
	}
	link, theirs, err := ranklink.Pair()
	if err != nil {
		return w, err
	}
	w.link, w.rankEnds = link, append(w.rankEnds, theirs)
	return w, nil
}

// add takes ownership of two descriptors. It makes only the agent's end non-blocking, for the runtime's poller.
func (p *rankPipes) add(ours **os.File, mine, theirs int) error {
	errNonblock := unix.SetNonblock(mine, true)
	*ours = os.NewFile(uintptr(mine), "rank")
	p.rankEnds = append(p.rankEnds, os.NewFile(uintptr(theirs), "rank's end"))
	if errNonblock != nil {
		return fmt.Errorf("make descriptor %d non-blocking: %w", mine, errNonblock)
	}
	return nil
}

func (p *rankPipes) closeRankEnds() {
	for _, f := range p.rankEnds {
		f.Close()
	}
}

func (p *rankPipes) closeAgentEnds() {
	for _, f := range []*os.File{p.stdout, p.stderr, p.pmi} {
		if f != nil {
			f.Close()
		}
	}
	if p.link != nil {
		p.link.Close()
	}
}
