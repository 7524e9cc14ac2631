// Package uverbs describes the kernel's interface for user verbs, byte by byte: the commands that are written to
// /dev/infiniband/uverbsN, their answers, what is read from its event descriptors, and the numbers in them. It is data only.
//
// A struct is named after the kernel's, a field has the kernel's name in its comment, and so has a constant. That is more than
// courtesy: a test reads these comments and holds every size, offset and value against what the C compiler makes of the kernel's
// headers. All padding is written out, so a struct has the same layout on amd64 and arm64 and its bytes may be handed over as
// they are. Integers are in the order of the machine; GIDs, GUIDs and immediate data in that of the network.
//
// Fields are plain numbers as wide as the kernel's. The constants have types, so that lists of them cannot be mixed up, and are
// converted where they are stored:
//
//	in := uverbs.ModifyQP{QPHandle: h, QPState: uint8(uverbs.QPSInit), AttrMask: uint32(uverbs.QPAttrState | ...)}
package uverbs
