// Package core implements package mpi without type parameters: processes, communicators, groups,
// sessions, messages, requests and collectives. Buffers are bytes, and a [datatype.Kind] names the
// type of their elements. A front end adds the types and the conventions of a language. Package mpi
// is the one for Go, in which
//
//	err := mpi.Send(world, x, 1, tag)
//
// is
//
//	err := c.Send(perf.Send, core.Bytes(x), 1, tag, proto.Standard)
//
// The calls have the semantics, the concurrency and the ownership of buffers that package mpi
// documents. Their errors are [Error], [ErrorList] and [RequestError]. A front end converts them to
// its own errors, and names the classes of those in [Config].
//
// A message is sent from a [datatype.Buffer] and received into one, which describes numbers,
// structs and derived data alike. Where calls are checked its elements travel with the message,
// with the source position of the call, so that the receiver can compare. The calls that programs
// make most exist for bytes as well: Send, Isend, Recv, Irecv, Sendrecv and RecvContext. They check
// nothing, and do not need the kind of the elements, which costs some time to find out. A front end
// calls them for numbers if [IsPlain] reports true.
//
// # Parts
//
// A [Process] and a [Comm] say who takes part and whether calls are allowed, and make the errors of
// calls. What can be done with them is in types of their own, which a front end gets by a method,
// such as [Comm.Collectives], [Comm.Topology] and [Process.Recording]. Many parts know neither the
// call nor the communicator. They return errors that have a class only; [Comm.CallResult] makes of
// them what the program gets. Calls that create communicators are functions: [Split], [Dup],
// [CartCreate]; so are those of probes, of partitioned messages, and of messages that end with a
// context: [Probe], [PsendInit], [RecvContext]. The files:
//
//	processes      process config init init_exchange environment machine hw_resource record memory
//	               clocks: internal/clocks, wtime
//	sessions       session pset group
//	communicators  comm comm_table intercomm name hints info attr attr_predefined free
//	creation       agreement (the ranks agree, as a part of a call), contextid, create, dup, split,
//	               splittype, create_intercomm, comm_from_group; internal/contextids, internal/creation
//	topologies     topology cart graph distgraph
//	collectives    coll_call (from the call to the algorithm), coll_kinds (what each collective does,
//	               one switch for each step), collective (messages), coll_shm (shared memory)
//	 arguments     coll_args neighbor inter_args coll_views
//	 other forms   immediate immediate_steps inter_coll reduce barrier_context
//	 comparison    check_collective (with --check), compare_shm (always, of some properties);
//	               internal/checking
//	messages       send recv data sendrecv probe context partitioned buffered request status grequest;
//	               route, number, buffer_unsafe
//	data types     datatype datatype_attr datatype_construct elements op
//	errors         error_class (predefined classes), added_codes, errors (the errors of calls),
//	               errhandler failure check unwinding
//
// # Locks
//
// The mutex of a Process guards the number of its users. It is held while the World Model or a
// session is opened, and while the last user closes the engine. A blocking collective holds no
// mutex: a word admits one at a time. The engine calls Step, Do and Ended of an immediate
// collective, and asks for communicators, with its own lock held. What they lock is never held
// while the engine is called.
package core
