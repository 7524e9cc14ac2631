// Package protocols says how the payload of a message may be transferred, and which way the length
// of the message suggests for a transport.
//
// protocols.go has the protocols and [Thresholds], the lengths that decide. Package proto uses them
// for each message, and package explain shows them to users, so both follow the same rules.
// pieces.go divides a message that both sides copy into pieces, and lets the sides claim them.
//
// The package has no state, except that a [Forced] may draw random numbers: its user protects it.
package protocols
