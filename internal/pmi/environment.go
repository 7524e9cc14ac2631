package pmi

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

// LaunchError means that this process is one of several, but that there is no way to connect to the others. If each continued
// as a job of one process, the whole program would run that many times.
type LaunchError struct {
	// Evidence is the environment variable that shows that there are other processes.
	Evidence string
	// Fix is the remedy: the command to use instead.
	Fix string
	// Reason is what is wrong with the connection to the launcher. It is empty if the environment names no connection.
	Reason string
}

// Error returns the evidence, the reason and the remedy.
func (e *LaunchError) Error() string {
	text := "pmi: this is one of several processes (" + e.Evidence + ") but there is no way to reach the others"
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return text + "; " + e.Fix
}

// endpoint is the connection that the environment names, and the rank and size if the environment has them.
type endpoint struct {
	conn        conn
	rank, size  int
	rankUnknown bool // request rank and size from the launcher with id
	id          int
}

// dial opens the connection that PMI_FD names, or else PMI_PORT. Both results are nil if the job has only this process.
func dial(getenv func(string) string) (*endpoint, error) {
	if text := getenv("PMI_FD"); text != "" {
		fd, err := number("PMI_FD", text)
		if err != nil {
			return nil, err
		}
		return dialFD(fd, getenv)
	}
	addr := getenv("PMI_PORT")
	if addr == "" {
		return nil, checkSingleton(getenv, "")
	}
	id, err := number("PMI_ID", getenv("PMI_ID"))
	if err != nil {
		return nil, err
	}
	link, err := net.DialTimeout("tcp", addr, initTimeout)
	if err != nil {
		return nil, fmt.Errorf("pmi: connect to the launcher at PMI_PORT: %w", err)
	}
	return &endpoint{conn: link, rankUnknown: true, id: id}, nil
}

func dialFD(fd int, getenv func(string) string) (*endpoint, error) {
	link, err := openFD(fd)
	if err != nil {
		// A child process of a rank inherits the environment but not the descriptor. In a job of one process it needs no
		// launcher.
		return nil, checkSingleton(getenv, fmt.Sprintf("PMI_FD=%d is %v", fd, err))
	}
	e := &endpoint{conn: link}
	if e.rank, err = number("PMI_RANK", getenv("PMI_RANK")); err == nil {
		e.size, err = number("PMI_SIZE", getenv("PMI_SIZE"))
	}
	if err != nil {
		return nil, errors.Join(err, link.Close())
	}
	return e, nil
}

// number parses the value of an environment variable, which must not be negative.
func number(name, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("pmi: %s=%q is not a number; the launcher sets it, do not change it", name, text)
	}
	return n, nil
}
