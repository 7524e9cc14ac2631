// Package proto carries messages between processes: it chooses the protocol of each message
// (package protocols), matches messages with receives, and waits for completion.
//
// An [Engine] uses one domain of package fabric, which is an open transport. Messages of a
// communicator have its context: a number, which is in the envelope with the rank of the sender and
// the tag. Messages are matched by the envelope.
//
// Short messages are eager: the sender copies them into the transport immediately, the receiver
// matches them when they arrive and copies them out. Somewhat longer ones are sent in several
// fragments, of which the receiver copies one while the sender writes the next. For long messages
// the sender sends an RTS (ready to send). When the receiver has matched it, the receiver reads the
// payload from the sender's memory and acknowledges with FIN. Package wire has the messages:
//
//	eager       Eager(envelope, payload) ->
//	fragments   FirstFrag(envelope, size, payload) Frag(payload) ... ->
//	synchronous EagerSync(envelope, id, payload) ->     <- FIN(id)      when matched
//	read        RTS(envelope, size, key, id) ->         [reads]         <- FIN(id)
//	shared      RTS(..., word) -> <- Assist(id, key)    [reads the front | sender writes the back]
//	                             ATP(id) ->             <- FIN(id)
//	copy        RTS -> <- DataRequest(id, id)  Data(id, offset, payload) -> ... and no FIN
//	put         <- RTR(id, key)  Put(id, id) -> [writes] ATP(id) ->
//	withdrawn   RTS(envelope, ...)  Withdraw(id) ->     <- Withdrawn(id) if it is not matched
//
// An id names a request of the process to which the message goes, or of the sender, which gets it
// back. A key is the address of memory and the right to access it. With ATP the sender says that it
// has written its part.
//
// Over shared memory the sender chooses the protocol of longer messages by the times that earlier
// ones took (internal/cost). For that it marks some messages. Their receiver measures them and
// reports the time:
//
//	measured    FirstFrag or RTS with marks -> ... <- Elapsed(size, protocol, time)
//
// The shared protocol is for transports whose reads occupy the reading processor. Sender and
// receiver claim pieces of the message in a word of shared memory, and both copy, which halves the
// time. It is not slower if the sender is busy elsewhere. The copy protocol is used where reads are
// not possible. With put the receiver sends its key first, in an RTR (ready to receive): in
// contexts whose hints permit it. A synchronous message can be withdrawn as an RTS can.
//
// A receiver stores unexpected messages up to a bound. From a quarter of it on it pauses its senders
// (Pause): they send only RTS, whatever the size of the message, until there is room again
// (Resume). An RTS is always accepted, so no sender ever waits until another sender's message is
// received.
//
// A process that waits for another one asks it with Watch to send Left when it leaves the context.
// Refuse answers an RTS or a synchronous message that will not be received. Flush asks a process
// for Flushed, which follows all that it has sent.
//
// # Waiting
//
// Any number of goroutines may call an engine. One of those that wait polls, and makes progress for
// all. When nothing happens for a while, it sleeps on the transport's descriptor. Each of the
// others sleeps on a channel of its own, until its own goal may have been reached. docs/waiting.md
// shows the states of these goroutines.
//
// # Files
//
//   - engine.go has the type, its configuration, and the end. request.go and requests.go have
//     requests and handles, parts.go data in many blocks, and tables.go the tables of messages by
//     context
//   - links.go has the connections, peer.go what is known of each process, and path.go of each
//     domain. outgoing.go and sendqueue.go have messages for the transport, combine.go those that
//     leave together
//   - send.go, recv.go, data.go, persistent.go, probe.go, buffered.go, grequest.go, checks.go and
//     cancel.go have the calls that start operations; completion.go, waitset.go,
//     stoppable.go and done.go those that end them
//   - eager.go, rendezvous.go, transfer.go, copy_assist.go, datacopy.go, rtr.go, withdraw.go and
//     reroute.go have the protocols; measure.go and hints.go what chooses between them
//   - poller.go and dispatch.go poll, and handle what has arrived; directrecv.go and
//     unexpected.go match or store it; flowcontrol.go pauses senders
//   - goal.go has what goroutines wait for, and stop.go what ends a wait early. wait.go has the
//     goroutine that polls, and decides when it sleeps; sleepers.go has those that sleep, and wakes
//     them. background.go has the goroutine that waits while no call does, and waker.go what wakes
//     an engine whose domain has no descriptor
//   - program.go, schedule.go, polled.go and partitioned.go have operations of several steps
//   - lost.go records which processes have failed, departure.go which have left a context.
//     processes.go has the calls about them. failure.go, hopeless.go, watch.go, contexts.go and
//     flush.go end operations whose processes or contexts have ended
//   - recording.go has what is recorded, note.go the notes that checked calls compare, and
//     clock_message.go the messages of the common clock. registration.go has memory that is
//     registered with devices, and shared_segment.go memory that processes share. progress.go has
//     the calls about progress itself
//
// An engine starts operations, polls, flushes and ends. Most other calls are methods of parts.
// Engine has a method for each part: Requests, Probes, Schedules, Contexts, Processes, Segments,
// AttachedBuffer, Checks, Clock, Memory and Recording. A part has pointers to what it needs, and
// functions of others that New has set. It knows no engine. Only Requests keep a pointer to it,
// which Handle.Engine returns. The same holds for the parts without calls:
//
//	poller      polls the transport, and hands on what has arrived
//	waiters     the goroutines that wait
//	links       the processes, and messages on their way to the transport
//	transfers   the queue of blocks to be moved, and what sends and receives have in common
//	unexpected  the store of messages without a receive, which pauses senders
//	sends       the sending side of messages, without the fast paths
//	receives    the receiving side: it matches messages with receives
//	departures  which processes have left a context, and the requests that need them
//	flushes     which processes have been asked whether all their messages have arrived
//	hints       how the messages of contexts are transferred
//	failure     why the engine has failed, and which processes have finalized
//
// The packages in internal know no engine. Each has one part of what the lock guards, or a lock of
// its own.
//
// # The lock
//
// One mutex, Engine.mu, guards everything that an engine refers to: requests, peers, tables of
// messages, queues, what waits, and the counters of all these. Comments call it the lock of the
// engine. A function of this package is called with it, unless it is exported or its comment says
// otherwise. Exported methods take it, except those for code that the engine calls with the lock,
// and those that only read what is not guarded.
//
// Not guarded are:
//
//   - what New sets and nothing changes. That is owner, clock.handler, segments.domain and
//     hints.exactBit. Of waiters it is spin, inProcess and processors; of links it is self, domain,
//     router, paths, copier, addr, now and warn. It is also the functions that a part calls, and
//     the recorder and the trace of the configuration
//   - the engine and the index of a request, which are set when its slab is made
//   - background.timer, which is set before the timer is started: its function reads it
//   - which recorder is active: BeginOp, EndOp and their variants read it without the lock.
//     SetRecording changes it, so no operation may begin or end meanwhile
//   - how long yields take, which all engines of the process learn together; that has a mutex of
//     its own
//   - words in memory that is shared with other processes: these are read and written atomically
//   - the memory of a transfer, and a copy of what describes it, which belong to the goroutine that
//     moves the block
//
// With the lock held, the engine calls:
//
//   - the domain and its endpoints: Poll, Arm, Connect, Register, Send and its variants, Flush, and
//     Words, Segment and Wake of shared memory. They do not wait for a peer, and do not call the
//     engine: a waker only writes a descriptor or a channel
//   - Read, if it only starts the device (fabric.Pusher), and for pieces of a message that the
//     sender could not write
//   - the caches of registrations. Their locks are taken within this one, and never the reverse
//   - the functions of Config and Partitions, the ClockHandler, the recorder, and the report
//     functions of WaitAll and WaitSome
//   - a Program, except for a StepLong
//   - Close of the domain, of its caches and of the parker, when no other call is in progress
//
// All these but Close must return soon, and must not call the engine, except by methods whose
// comments permit it.
//
// The lock is released while a goroutine:
//
//   - yields (yieldToOthers, yieldToGoroutines, yield, takeOverPolling, Segments.Map)
//   - sleeps (park, sleep, stopChannels, stopBackground)
//   - moves a block by Read or Write of an endpoint (runRead, runPut, runAssist)
//   - does a StepLong of a schedule (doLong), or packs a partition (partitioned.pack)
//   - calls functions of a generalized request (unlocked)
//
// Afterwards anything may have changed: requests have completed and are in use again, the engine
// has failed, contexts have ended. A caller of such a function reads again what it needs. A request
// that is used afterwards is checked by its generation.
package proto
