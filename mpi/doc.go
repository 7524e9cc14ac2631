// Package mpi lets the processes of a job exchange messages, as the Message Passing Interface (MPI-5.0) defines it,
// with an interface in the style of Go.
//
//	func main() {
//		mpi.Main(func(ctx context.Context, p *mpi.Process) error {
//			world := p.World()
//			x := []float64{float64(world.Rank())}
//			sum := make([]float64, 1)
//			if err := mpi.Allreduce(world, sum, x, mpi.Sum); err != nil {
//				return err
//			}
//			fmt.Println(world.Rank(), sum[0])
//			return nil
//		})
//	}
//
// Start the program with ibrun -n 4 ./program. Without ibrun it runs as a world of one process. There is no global state:
// a [Process] is a value, and with package mpitest many of them run in one go test.
//
// # Calls by subject
//
// go doc sorts functions by the type that they return, so that most calls are listed under [Request] and [Status]. By subject:
//
//   - Processes and the environment: [Main] [Init] [Join] [LibraryVersion] [Process.World] [Process.Self] [Process.Finalize]
//     [Process.Leave] [Process.Abort] [Process.Wtime] [Process.Progress]
//   - Messages that block: [Send] [Ssend] [Bsend] [Rsend] [Recv] [Sendrecv] [Mrecv] [Count] [SetCount] [Comm.Probe]
//     [Comm.Mprobe] [Comm.SendrecvReplace]
//   - One number: [SendOne] [RecvOne] [SendrecvOne] [BcastOne] [GatherOne] [ScatterOne] [AllgatherOne] [ReduceOne]
//     [AllreduceOne] [ScanOne] [ExscanOne]
//   - Values of any type: [SendValue] [RecvValue] [BcastValue] [GatherValue] [ScatterValue] [AllgatherValue] [AlltoallValue]
//   - Messages that end with a context: [SendContext] [SsendContext] [RecvContext] [SendOneContext] [RecvOneContext]
//     [SendValueContext] [RecvValueContext] [Messages] [Comm.Messages] [Comm.ProbeContext] [Comm.BarrierContext]
//     [Request.WaitContext]
//   - Immediate messages: [Isend] [Issend] [Ibsend] [Irsend] [Irecv] [Imrecv]
//   - Requests: [Waitall] [Waitany] [Waitsome] [Testall] [Testany] [Testsome] [WaitallContext] [WaitanyContext]
//     [WaitsomeContext] [Request.Wait] [Request.Test] [Request.Done] [Request.Cancel] [Request.Free] [Process.NewGrequest]
//   - Persistent messages: [SendInit] [SsendInit] [BsendInit] [RsendInit] [RecvInit] [Startall] [Request.Start]
//   - Partitioned messages: [PsendInit] [PrecvInit] [Request.Pready] [Request.PreadyRange] [Request.PreadyList]
//     [Request.Parrived]
//   - Collectives: moving data: [Bcast] [Gather] [Gatherv] [Scatter] [Scatterv] [Allgather] [Allgatherv] [Alltoall] [Alltoallv]
//     [Comm.Barrier] [Comm.Alltoallw]
//   - Collectives: reductions: [Reduce] [Allreduce] [AllreduceMany] [ReduceScatter] [ReduceScatterBlock]
//     [Scan] [Exscan] [ReduceLocal] [NewOp]
//   - Immediate collectives: [Ibcast] [Igather] [Igatherv] [Iscatter] [Iscatterv] [Iallgather] [Iallgatherv] [Ialltoall]
//     [Ialltoallv] [Ireduce] [Iallreduce] [IallreduceMany] [IreduceScatter] [IreduceScatterBlock] [Iscan] [Iexscan]
//     [Comm.Ibarrier]
//   - Persistent collectives: [BcastInit] [GatherInit] [GathervInit] [ScatterInit] [ScattervInit] [AllgatherInit]
//     [AllgathervInit] [AlltoallInit] [AlltoallvInit] [ReduceInit] [AllreduceInit] [AllreduceManyInit] [ReduceScatterInit]
//     [ReduceScatterBlockInit] [ScanInit] [ExscanInit] [Comm.BarrierInit]
//   - Neighbors in a grid or graph: [DimsCreate] [NeighborAllgather] [NeighborAllgatherv] [NeighborAlltoall]
//     [NeighborAlltoallv] [IneighborAllgather] [IneighborAllgatherv] [IneighborAlltoall] [IneighborAlltoallv]
//     [NeighborAllgatherInit] [NeighborAllgathervInit] [NeighborAlltoallInit] [NeighborAlltoallvInit] [Comm.CartCreate]
//     [Comm.CartShift] [Comm.CartSub] [Comm.GraphCreate] [Comm.DistGraphCreate] [Comm.Neighbors]
//   - Communicators, groups and sessions: [CommFromGroup] [IntercommFromGroups] [Comm.Dup] [Comm.Split] [Comm.SplitType]
//     [Comm.Create] [Comm.CreateGroup] [Comm.CreateIntercomm] [Comm.Group] [Process.OpenSession] [Session.Group]
//   - Data that is not contiguous: [ArrayOf] [ViewOf] [ViewAs] [Pack] [Unpack] [PackSize] [PackExternal] [UnpackExternal]
//     [PackExternalSize]
//   - Datatypes: [TypeOf] [TypeNamed] [TypeMatchSize] [TypeContiguous] [TypeVector] [TypeHvector] [TypeIndexed] [TypeHindexed]
//     [TypeIndexedBlock] [TypeHindexedBlock] [TypeStruct] [TypeSubarray] [TypeDarray] [Float16Of] [BFloat16Of]
//   - Attributes: [NewKeyval] [DupCopy] [NullCopy] [NullDelete] [NewTypeKeyval] [TypeDupCopy] [TypeNullCopy] [TypeNullDelete]
//   - Errors: [NewErrorHandler] [Comm.SetErrorHandler] [Comm.CallErrorHandler] [Process.AddErrorClass]
//   - Memory: [Alloc] [Register] [Unregister] [Process.BufferAttach]
//
// # Buffers
//
// Buffers are slices, which contain the element type and the count. A slice passed to a call must not be changed until the
// call returns; for an immediate call, until the request has completed. Sends only read it. Slices of local arrays escape to
// the heap. A receive buffer may be longer than the message; [Count] returns how many elements have been received.
//
// The destination comes first, as in copy: Allreduce(c, dst, src, op). In C and mpi4py the source does. If a program writes the
// input first, the call overwrites it with the combined contents of the other slice, which are mostly zeros, and returns nil.
//
// Elements are numbers, bool, and structs and arrays of these without pointers. The padding of structs is not sent.
// The methods of [Comm] with the names of functions take a [View]: data that is not contiguous, such as a column of a
// matrix, or elements of any [Datatype]:
//
//	g := mpi.ArrayOf(x, ny+2, nx+2)
//	_, err := c.Sendrecv(g.Col(1), left, 0, g.Col(nx+1), right, 0)
//
// [SendValue] and [RecvValue] take values of any type, such as strings and maps.
//
// # Errors
//
// Every call returns nil or an [*Error]. errors.Is matches its [Class]:
//
//	if errors.Is(err, mpi.ErrTruncate) { ... }
//
// When a process is lost, pending and later calls fail with [ErrProcFailed].
//
// A nil pointer and the zero value of a type stand for no object. Calls that need one fail: without a communicator with
// [ErrComm], a session [ErrSession], a group [ErrGroup], a datatype [ErrType], a message [ErrRequest], a process [ErrOther].
// Methods that return no error return 0, false or nil then, Rank returns [Undefined], and those that set something do nothing.
//
// # Concurrency
//
// Any number of goroutines may call any function at the same time, also on the same communicator (MPI_THREAD_MULTIPLE).
// Collectives are the exception: as MPI requires, those of one communicator run one after the other, in the same order at
// all ranks. A second concurrent one is an error.
//
// # Cancellation
//
// Calls whose names end in Context end when their context ends. A collective cannot be left once its messages are on their way.
// To wait for a collective with a context, start its immediate form, and wait with [Request.WaitContext]. If the context ends
// first, the error has the class [ErrPending]: the operation continues, and its slices are in use until a later wait returns.
// [Comm.BarrierContext] before a collective lets all ranks begin it together, so that none has to wait for a late one.
//
// # Sessions
//
// Libraries that cannot share World open a [Session], and create communicators from process sets:
//
//	s, err := p.OpenSession(nil)
//	g, err := s.Group("mpi://WORLD")
//	c, err := mpi.CommFromGroup(g, "org.example.library", nil)
//
// A program that does not need World calls [Join] instead of [Init].
//
// # Attributes
//
// A [Keyval] attaches a value of any type to communicators. Its callbacks define what happens to the value when the
// communicator is duplicated or freed. Finalize first runs the callbacks of Self, so a library can release its resources.
//
//	cache := mpi.NewKeyval(p, mpi.DupCopy[*plan], func(_ *mpi.Comm, x *plan) error { return x.Close() })
//	err := cache.Set(world, x)
//	x, ok, err := cache.Get(world)
//
// # Environment
//
// Predefined keys such as [TagUB] and [WtimeIsGlobal] describe the job and its machines. They are read-only:
//
//	bound, ok, err := mpi.TagUB.Get(world)
//
// [Process.Wtime] returns a time that all processes share, even on several machines. [Process.WtimeError] bounds its error.
//
// # Hardware
//
// [Process.GetHWResourceInfo] returns the parts of the machine to which the process is restricted by its current affinity.
// Each key also divides a communicator into groups of ranks that share an instance:
//
//	hardware, err := p.GetHWResourceInfo()
//	for key, value := range hardware.All() { // hwloc://NUMANode true, ibrun://n0/core/7 false, ibrun://rail/0 true ...
//		...
//	}
//	err = info.Set("mpi_hw_resource_type", "hwloc://NUMANode")
//	near, err := world.SplitType(mpi.TypeHWGuided, 0, &info) // nil if this rank may run on several
//
// The numeric values of constants are those of the MPI-5.0 ABI.
package mpi
