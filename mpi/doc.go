// Package mpi lets the processes of a job exchange messages as the Message Passing Interface defines it, in Go's terms.
//
//	func main() {
//		p, err := mpi.Init(context.Background(), nil)
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer p.Finalize()
//		world := p.World()
//
//		x := []float64{float64(world.Rank())}
//		sum := make([]float64, 1)
//		if err := mpi.Allreduce(world, sum, x, mpi.Sum); err != nil {
//			log.Fatal(err)
//		}
//		fmt.Println(world.Rank(), sum[0])
//	}
//
// Start it with ibrun -n 4 ./program; started by itself it is a world of one. There is no global state: a [Process]
// is a value, and with package mpitest many of them run in one go test.
//
// # Buffers
//
// Slices are the buffers: they carry element type and count. A slice handed to a call belongs to the call until it
// returns, and with the immediate forms until the request has completed; sends only read it. Slices of local arrays
// escape to the heap. Receiving into a slice that is longer than the message is fine, [Count] tells how much came.
//
// # Errors
//
// Every call returns an error, nil or an [*Error], which answers errors.Is for its [Class]:
//
//	if errors.Is(err, mpi.ErrTruncate) { ... }
//
// When a process is lost, calls that wait and later ones fail with [ErrProcFailed].
//
// # Concurrency
//
// Any number of goroutines may call anything at once, on one communicator too (MPI_THREAD_MULTIPLE). Only
// collectives on one communicator go one after the other, in the same order at all ranks, as MPI demands; a second
// one at the same time is an error.
//
// # Sessions
//
// Libraries that cannot share World open a [Session], and make communicators of process sets:
//
//	s, err := p.OpenSession(nil)
//	g, err := s.Group("mpi://WORLD")
//	c, err := mpi.CommFromGroup(g, "org.example.library", nil)
//
// A program without World begins with [Join] instead of [Init].
//
// # Attributes
//
// A [Keyval] attaches a value of any type to communicators. Callbacks say what becomes of it when the communicator is
// duplicated or freed; those on Self run first of all in Finalize, so a library can clean up after itself.
//
//	cache := mpi.NewKeyval(p, mpi.DupCopy[*plan], func(_ *mpi.Comm, x *plan) error { return x.Close() })
//	err := cache.Set(world, x)
//	x, ok, err := cache.Get(world)
//
// # Environment
//
// Predefined keys tell about the job and its machines; [TagUB], [WtimeIsGlobal] and the others cannot be changed:
//
//	bound, ok, err := mpi.TagUB.Get(world)
//
// [Process.Wtime] is one time for all processes, on several machines as well; [Process.WtimeError] tells how well that is known.
//
// # Hardware
//
// A process is told which parts of its machine it is restricted to, by the affinity of the moment, and each key that it is told
// divides a communicator into ranks that share one:
//
//	hardware, err := p.GetHWResourceInfo()
//	for key, value := range hardware.All() { // hwloc://NUMANode true, ibrun://n0/core/7 false, ibrun://rail/0 true ...
//		...
//	}
//	err = info.Set("mpi_hw_resource_type", "hwloc://NUMANode")
//	near, err := world.SplitType(mpi.TypeHWGuided, 0, &info) // nil where this rank may run on several
//
// Numeric values of constants are those of the MPI-5.0 ABI.
package mpi
