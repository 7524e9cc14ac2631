package bootstrap

import (
	"context"
	"errors"
	"strconv"

	"github.com/ibrun/ibrun/internal/pmi"
	"github.com/ibrun/ibrun/internal/pmix"
)

// launcher is the connection of a process to its launcher, over PMI or PMIx. Only one goroutine at a time may call its methods.
type launcher interface {
	Rank() int
	Size() int
	// AppNum and UniverseSize are those of Process.
	AppNum() (int, error)
	UniverseSize() (int, error)
	// Put stores a value, which is not empty, under a key of this process. All processes see it after the next Barrier.
	Put(key string, value []byte) error
	// Get returns the value that a process has put under a key.
	Get(rank int, key string) ([]byte, error)
	// Barrier blocks until every process of the job has called it.
	Barrier(ctx context.Context) error
	// Mapping returns the number of each process's node, and NodeRanks the processes on this node in ascending order. The
	// launcher may be mistaken, so processes still check that they share memory.
	Mapping() ([]int, error)
	NodeRanks() ([]int, error)
	Abort(code int, why string) error
	Finalize() error
}

// connect returns the connection to the launcher, or nil if this process is a world of one.
func connect(getenv func(string) string) (launcher, error) {
	client, err := pmi.FromEnv(getenv)
	if client != nil {
		return &pmiLauncher{client}, nil
	}
	// A process of a PMIx launcher has inherited the variables of PMI if ibrun has started that launcher.
	var unreachable *pmi.LaunchError
	if !pmix.Launched(getenv) || err != nil && !errors.As(err, &unreachable) {
		return nil, err
	}
	x, errPMIx := pmix.FromEnv(getenv)
	switch {
	case errPMIx != nil:
		return nil, errPMIx
	case x == nil: // a process that is alone needs no launcher
		return nil, err
	}
	return x, nil
}

// pmiLauncher is a launcher that speaks PMI, in which keys belong to the job. So they have the rank at the end.
type pmiLauncher struct{ *pmi.Client }

func (l *pmiLauncher) Put(key string, value []byte) error {
	return l.PutBlob(rankKey(key, l.Rank()), value)
}

func (l *pmiLauncher) Get(rank int, key string) ([]byte, error) { return l.GetBlob(rankKey(key, rank)) }

func rankKey(key string, rank int) string { return key + "-" + strconv.Itoa(rank) }
