package control

import "fmt"

// unackedQueue holds the messages of one direction that the other side has not acknowledged, so
// that they can be written again over a new link. Messages are numbered from 0 over the whole life
// of a Conn. The caller must hold mu of the Conn.
//
// Package outbox does something else: it drops what was written, since its stream has no
// replacement.
type unackedQueue struct {
	messages [][]byte
	first    uint64 // the number of messages[0]: the other side has received all before it
	written  int    // how many of messages were written on the current link
	bytes    int    // the length of messages together
}

func (o *unackedQueue) add(message []byte) {
	o.messages = append(o.messages, message)
	o.bytes += len(message)
}

// acknowledge removes the messages that the other side has received: count since the beginning. Only messages that were written
// can be acknowledged.
func (o *unackedQueue) acknowledge(count uint64) error {
	if count < o.first || count > o.first+uint64(o.written) {
		return fmt.Errorf("%w: it acknowledged %d messages; %d to %d were possible", errProtocol, count, o.first,
			o.first+uint64(o.written))
	}
	o.drop(int(count - o.first))
	return nil
}

// restart begins a new link, after the other side has received count messages over earlier ones. The others are written again.
func (o *unackedQueue) restart(count uint64) error {
	if count < o.first || count > o.first+uint64(len(o.messages)) {
		return fmt.Errorf("%w: it has received %d messages; %d to %d were possible", errProtocol, count, o.first,
			o.first+uint64(len(o.messages)))
	}
	o.drop(int(count - o.first))
	o.written = 0
	return nil
}

func (o *unackedQueue) drop(n int) {
	for i, m := range o.messages[:n] {
		o.bytes -= len(m)
		o.messages[i] = nil
	}
	o.messages = o.messages[n:]
	o.first += uint64(n)
	o.written = max(0, o.written-n)
}

// take returns messages to write now, of about limit bytes, and counts them as written.
func (o *unackedQueue) take(limit int) (batch [][]byte) {
	for n := 0; n < limit && o.written < len(o.messages); o.written++ {
		batch = append(batch, o.messages[o.written])
		n += headerLen + len(o.messages[o.written]) + tagLen
	}
	return batch
}
