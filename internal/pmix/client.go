package pmix

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	abi "github.com/ibrun/ibrun/internal/abi/pmix"
)

// soname is the name of the library in all versions from 2 on.
const soname = "libpmix.so.2"

// maxKey limits keys, in bytes.
const maxKey = len(abi.Info{}.Key) - 1

// abortTimeout bounds the wait for the launcher's answer to Abort.
const abortTimeout = 10 * time.Second

// endTimeout bounds how long a barrier in which a process is missing waits for the launcher to end the job.
const endTimeout = 2 * time.Second

// Client is the connection of a process to its launcher. Only one goroutine at a time may call its methods.
type Client struct {
	lib  *library
	self abi.Proc
	size int
	err  error // why no further call is possible
}

// Launched reports whether a PMIx launcher has started this process, or one that it descends from.
func Launched(getenv func(string) string) bool { return getenv("PMIX_NAMESPACE") != "" }

// alone reports whether the environment says that the launcher has started only this process. If one launcher was started by
// another, the environment has the variables of both.
func alone(getenv func(string) string) bool {
	openmpi, slurm := getenv("OMPI_COMM_WORLD_SIZE"), getenv("SLURM_STEP_NUM_TASKS")
	return (openmpi == "1" || openmpi == "") && (slurm == "1" || slurm == "") && openmpi+slurm != ""
}

// FromEnv connects to the PMIx launcher that has started this process. The result is nil if there is none, or if it has started
// only this process and libpmix cannot be loaded. It may be called only once in a process.
func FromEnv(getenv func(string) string) (*Client, error) {
	if !Launched(getenv) {
		return nil, nil
	}
	lib, err := load(soname)
	if err != nil && alone(getenv) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pmix: this is rank %s of PMIx job %s, but %w; or start it with ibrun, mpiexec.hydra or "+
			"srun --mpi=pmi2", getenv("PMIX_RANK"), getenv("PMIX_NAMESPACE"), err)
	}
	c := &Client{lib: lib}
	if err := c.init(); err != nil {
		return nil, fmt.Errorf("%w; to run it without the launcher of PMIX_NAMESPACE=%s: env -u PMIX_NAMESPACE -u PMIX_RANK %s",
			err, getenv("PMIX_NAMESPACE"), os.Args[0])
	}
	if c.size, err = c.number(abi.RankWildcard, abi.KeyJobSize); err != nil {
		return nil, err
	}
	if c.Rank() >= c.size {
		return nil, fmt.Errorf("pmix: the launcher reports rank %d of %d for this process", c.Rank(), c.size)
	}
	return c, nil
}

func (c *Client) init() error {
	var status int32
	if err := withoutSignals(func() { status = c.lib.init(&c.self, 0, 0) }); err != nil {
		return err
	}
	return c.lib.check("PMIx_Init", status)
}

// Rank returns the number of this process, 0 <= Rank < Size.
func (c *Client) Rank() int { return int(c.self.Rank) }

// Size returns the number of processes of the job.
func (c *Client) Size() int { return c.size }

// AppNum returns the number of this process's program in a job of several programs, or -1 if the launcher does not number them.
func (c *Client) AppNum() (int, error) { return c.optional(c.self.Rank, abi.KeyAppNum) }

// UniverseSize returns how many processes the launcher can run in total, or -1 if it does not report that.
func (c *Client) UniverseSize() (int, error) {
	return c.optional(abi.RankWildcard, abi.KeyUniverseSize)
}

// optional returns a number of the launcher, or -1 if it does not provide it.
func (c *Client) optional(rank uint32, key string) (int, error) {
	n, err := c.number(rank, key)
	if errors.Is(err, ErrNotFound) {
		return -1, nil
	}
	return n, err
}

func (c *Client) number(rank uint32, key string) (int, error) {
	v, err := c.get(rank, key)
	if err == nil && v.number < 0 {
		return 0, fmt.Errorf("pmix: %s of the launcher is %d", key, v.number)
	}
	return v.number, err
}

// Put stores a value under a key of this process. Other processes see it after the next Barrier.
func (c *Client) Put(key string, value []byte) error {
	if c.err != nil {
		return c.err
	}
	if err := checkKey(key); err != nil {
		return err
	}
	if len(value) == 0 {
		return fmt.Errorf("pmix: the value of %s is empty", key)
	}
	return c.lib.check("PMIx_Put "+key, c.lib.putBytes(key, value))
}

func checkKey(key string) error {
	if key == "" || len(key) > maxKey || strings.ContainsRune(key, 0) || strings.HasPrefix(key, "pmix") {
		return fmt.Errorf("pmix: invalid key %.70q: it has 1 to %d bytes, no zero, and does not begin with pmix", key, maxKey)
	}
	return nil
}

// Get returns the value that a process has put under a key before the last Barrier, or [ErrNotFound].
func (c *Client) Get(rank int, key string) ([]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if rank < 0 || rank >= c.size {
		return nil, fmt.Errorf("pmix: get %s of rank %d of %d", key, rank, c.size)
	}
	v, err := c.get(uint32(rank), key)
	return v.bytes, err
}

// get returns a value of a process, or of the job. It does not wait for a process that has not put it yet.
func (c *Client) get(rank uint32, key string) (value, error) {
	if c.err != nil {
		return value{}, c.err
	}
	of := &abi.Proc{Nspace: c.self.Nspace, Rank: rank}
	immediate := flag(abi.KeyImmediate)
	var addr uintptr
	status := c.lib.get(of, key, immediate, 1, &addr)
	runtime.KeepAlive(of)
	runtime.KeepAlive(immediate)
	what := "PMIx_Get " + key
	if rank != abi.RankWildcard {
		what += " of rank " + strconv.Itoa(int(rank))
	}
	if err := c.lib.check(what, status); err != nil {
		return value{}, err
	}
	v, err := c.lib.take(addr)
	if err != nil {
		return value{}, fmt.Errorf("pmix: %s: %w", what, err)
	}
	return v, nil
}

// flag returns a parameter of a call that is true.
func flag(key string) *abi.Info {
	i := &abi.Info{Value: abi.Value{Type: abi.TypeBool, Bytes: 1}}
	copy(i.Key[:], key)
	return i
}

// Barrier blocks until every process of the job has called it. Then all processes see the values that any of them has put
// before. If ctx ends first, no further call is possible, because PMIx has no way to leave a barrier. If a process has ended,
// Barrier fails, but gives the launcher time to end the job before: the launcher may hear of the exit of this process before
// it hears of the other's, and would report that.
func (c *Client) Barrier(ctx context.Context) error {
	if c.err != nil {
		return c.err
	}
	if err := c.lib.check("PMIx_Commit", c.lib.commit()); err != nil {
		return err
	}
	done := make(chan int32, 1)
	go func() { // ends with the process if the other processes never arrive
		collect := flag(abi.KeyCollect)
		done <- c.lib.fence(0, 0, collect, 1)
		runtime.KeepAlive(collect)
	}()
	select {
	case status := <-done:
		err := c.lib.check("PMIx_Fence", status)
		if status == abi.PartialSuccess {
			err = fmt.Errorf("a process of the job has ended before its barrier: %w", err)
			select {
			case <-ctx.Done():
			case <-time.After(endTimeout):
			}
		}
		return err
	case <-ctx.Done():
		c.err = fmt.Errorf("pmix: PMIx_Fence: %w", context.Cause(ctx))
		return c.err
	}
}

// Mapping returns the number of each rank's node according to the launcher, in the order in which nodes occur, or [ErrNotFound].
func (c *Client) Mapping() ([]int, error) {
	nodes := make([]int, c.size)
	numbers := map[string]int{}
	for rank := range nodes {
		name, err := c.nodeOf(uint32(rank))
		if err != nil {
			return nil, err
		}
		if _, ok := numbers[name]; !ok {
			numbers[name] = len(numbers)
		}
		nodes[rank] = numbers[name]
	}
	return nodes, nil
}

// nodeOf returns what the launcher calls the node of a process: a number, or else the name of the host.
func (c *Client) nodeOf(rank uint32) (string, error) {
	id, err := c.number(rank, abi.KeyNodeID)
	if err == nil {
		return strconv.Itoa(id), nil
	}
	if !errors.Is(err, ErrNotFound) {
		return "", err
	}
	host, err := c.get(rank, abi.KeyHostName)
	return string(host.bytes), err
}

// NodeRanks returns the ranks on this node in ascending order, including this one, according to the launcher.
func (c *Client) NodeRanks() ([]int, error) {
	v, err := c.get(abi.RankWildcard, abi.KeyLocalPeers)
	if err != nil {
		return nil, err
	}
	ranks, err := parsePeers(string(v.bytes), c.size)
	if err == nil && !slices.Contains(ranks, c.Rank()) {
		err = errors.New("this process is missing")
	}
	if err != nil {
		return nil, fmt.Errorf("pmix: the ranks %.70q of the node of rank %d: %w", v.bytes, c.Rank(), err)
	}
	return ranks, nil
}

// parsePeers parses ranks of a job of the given size: numbers and ranges in ascending order, such as 0,2,4-7.
func parsePeers(text string, size int) ([]int, error) {
	var ranks []int
	next := 0 // the smallest rank that may follow
	for word := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(word, "-")
		if !isRange {
			to = from
		}
		first, errFirst := strconv.Atoi(from)
		last, errLast := strconv.Atoi(to)
		if errFirst != nil || errLast != nil || first < next || last < first || last >= size {
			return nil, fmt.Errorf("%.20q: want ranks from 0 to %d in ascending order", word, size-1)
		}
		for ; first <= last; first++ {
			ranks = append(ranks, first)
		}
		next = last + 1
	}
	return ranks, nil
}

// Abort requests that the launcher ends the job with an exit code, and shows the message. A code that would look like success,
// because its last 8 bits are 0, becomes 1. Abort returns when the launcher has accepted that; it kills this process too.
func (c *Client) Abort(code int, msg string) error {
	msg = strings.ReplaceAll(msg, "\x00", "") // the library receives a string of C
	if code&0xff == 0 {
		code = 1
	}
	done := make(chan int32, 1)
	go func() { done <- c.lib.abort(int32(code), msg, 0, 0) }()
	select {
	case status := <-done:
		return c.lib.check("PMIx_Abort", status)
	case <-time.After(abortTimeout):
		return fmt.Errorf("pmix: PMIx_Abort: the launcher has not answered for %v", abortTimeout)
	}
}

// Finalize notifies the launcher that this process may exit from now on. A launcher reports a process that exits without it as
// failed.
func (c *Client) Finalize() error {
	if c.err != nil {
		return c.err
	}
	c.err = fmt.Errorf("pmix: finalized: %w", os.ErrClosed)
	return c.lib.check("PMIx_Finalize", c.lib.finalize(0, 0))
}
