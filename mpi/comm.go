package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// Special ranks and tags, with the values of the MPI-5.0 ABI.
const (
	// AnySource makes a receive match messages from any rank. MPI-5.0 §3.2.4.
	AnySource = core.AnySource
	// AnyTag makes a receive match messages with any tag. MPI-5.0 §3.2.4.
	AnyTag = core.AnyTag
	// ProcNull is the rank of no process: a send to it does nothing, a receive from it returns an empty message.
	// MPI-5.0 §3.10.
	ProcNull = core.ProcNull
	// Root is an argument root of collectives on an intercommunicator. MPI-5.0 §6.2.3. They take
	//   - in the group of the root: Root at the root, and ProcNull elsewhere;
	//   - in the other group: the rank of the root.
	Root = core.Root
	// Undefined is the color of ranks that get no communicator from Split, and the index of no request. MPI-5.0
	// §7.4.2.
	Undefined = core.Undefined
)

// Comm is a communicator: an ordered group of processes with its own message context. Any goroutine may call its
// methods. A process has at most 4,092 besides World and Self; a call that creates more fails with ErrOther. MPI-5.0 §7.4.
type Comm core.Comm

func (c *Comm) core() *core.Comm { return (*core.Comm)(c) }

// comm returns the results of a call of core.
func comm(c *core.Comm, err error) (*Comm, error) { return (*Comm)(c), public(err) }

// Rank returns the rank of this process in the communicator, from 0; Undefined if c is nil. MPI-5.0 §7.4.1.
func (c *Comm) Rank() int { return c.core().Rank() }

// Size returns the number of processes; for an intercommunicator, that of the local group; 0 if c is nil. MPI-5.0 §7.4.1.
func (c *Comm) Size() int { return c.core().Size() }

// Free releases the communicator. It is collective and blocks until all ranks have called it. Every later call fails
// with ErrComm. World and Self cannot be freed.
//
// Requests may be in progress; they must still be waited for. A message completes at both sides if its send and its receive were
// started before the ranks called Free, and so does a partitioned one if all partitions were ready. Collectives that all ranks
// have started complete before Free returns. What can complete without another rank does, such as a short send. All else fails
// with ErrComm:
//   - receives for which no message was sent, and probes that wait;
//   - synchronous and long sends without a receive;
//   - partitioned sends and receives that are not ready, or that need another side and have none;
//   - collectives that need another rank, if not all ranks have started the same ones in the same order. If calls are checked,
//     Free fails instead;
//   - persistent requests of any kind that are started later. They can still be freed.
//
// A message that nobody has received is dropped. Disconnect waits for messages instead.
//
// The attributes are deleted first, in reverse order of setting. If a delete callback fails at any rank, Free fails
// at all ranks, and the communicator remains valid. The rank whose callback failed gets the callback's error and
// keeps that attribute and those set before it; the other ranks have no attributes left. MPI-5.0 §7.4.3.
func (c *Comm) Free() error { return public(c.core().Free()) }

// Disconnect is Free that first waits for all pending messages: receives and sends that this rank has started
// complete, also partitioned ones, and must still be waited for afterwards. If a message never comes, Disconnect never
// returns. MPI-5.0 §11.10.4.
func (c *Comm) Disconnect() error { return public(c.core().Disconnect()) }
