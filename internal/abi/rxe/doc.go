// Package rxe describes what the kernel's rxe driver (Soft-RoCE) shares with user space: the private parts of the uverbs
// commands, and the rings in which work requests and completions travel. It is data only, under the same rules as package
// abi/uverbs: the comments name the kernel's structs and fields, a test compares, padding is written out.
//
// A ring begins with a [QueueBuf]. Its slots, each 1<<Log2ElemSize bytes, hold
//
//   - send queue: a [SendWQE], then SGEs or the bytes of an inline message
//   - receive queue, shared or not: a [RecvWQE], then SGEs
//   - completion queue: a struct ib_uverbs_wc, for which see abi/uverbs
//
// The unions of the kernel's structs are arrays here; a type for each case is laid over them.
package rxe
