package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"

	"github.com/ibrun/ibrun/verbs"
)

// Two queue pairs need each other's address before they can be connected, and RDMA does not define how to exchange the
// addresses. The C programs use a TCP connection, and so does this program. The client sends a line for each of its queue
// pairs, the server answers with its own lines, and the client ends with "done". Two programs that need not be compatible with
// C can simply exchange the bytes of verbs.Address.

// A line is LID:QPN:PSN:GID in hexadecimal digits, 4, 6, 6 and 32 of them, and a NUL.
const (
	lineFormat = "%04x:%06x:%06x:%032x\x00"
	lineBytes  = 52
)

// srqLines is how many lines ibv_srq_pingpong sends and expects, however few queue pairs it has. The last lines belong to no
// queue pair.
const srqLines = 256

// doneMessage is the last message of the client.
const doneMessage = "done\x00"

// encode returns the line for an address.
func encode(a verbs.Address) []byte {
	var gid [16]byte
	if a.GID.IsValid() {
		gid = a.GID.As16()
	}
	return fmt.Appendf(nil, lineFormat, a.LID, a.QPN, a.PSN, gid)
}

// decode parses a line. The GID of an address without one is all zeros.
func decode(b []byte) (verbs.Address, error) {
	bad := fmt.Errorf("%q is not LID:QPN:PSN:GID", b)
	if len(b) != lineBytes || b[4] != ':' || b[11] != ':' || b[18] != ':' || b[51] != 0 {
		return verbs.Address{}, bad
	}
	lid, err1 := strconv.ParseUint(string(b[:4]), 16, 16)
	qpn, err2 := strconv.ParseUint(string(b[5:11]), 16, 24)
	psn, err3 := strconv.ParseUint(string(b[12:18]), 16, 24)
	var gid [16]byte
	_, err4 := hex.Decode(gid[:], b[19:51])
	if errors.Join(err1, err2, err3, err4) != nil {
		return verbs.Address{}, bad
	}
	a := verbs.Address{LID: uint16(lid), QPN: uint32(qpn), PSN: uint32(psn)}
	if gid != [16]byte{} {
		a.GID = netip.AddrFrom16(gid)
	}
	return a, nil
}

// describe formats an address like the C programs.
func describe(a verbs.Address) string {
	gid := "::"
	if a.GID.IsValid() {
		gid = a.GID.String()
	}
	return fmt.Sprintf("LID %#04x, QPN %#06x, PSN %#06x, GID %s", a.LID, a.QPN, a.PSN, gid)
}

// dial connects to the server. The server itself waits for the client.
func dial(ctx context.Context, o options) (net.Conn, error) {
	address := net.JoinHostPort(o.host, strconv.Itoa(o.tcpPort))
	if o.host != "" {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", address)
	}
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	return l.Accept()
}

// handshake exchanges the addresses of queue pairs with the peer: local are ours, and the result is those of the peer. It calls
// connect to connect the queue pairs. Each side sends the same number of lines.
func handshake(conn io.ReadWriter, server bool, lines int, local []verbs.Address,
	connect func(remote []verbs.Address) error) ([]verbs.Address, error) {
	sendLines := func() error {
		var text []byte
		for i := range lines {
			var a verbs.Address
			if i < len(local) {
				a = local[i]
			}
			text = append(text, encode(a)...)
		}
		_, err := conn.Write(text)
		return err
	}
	if !server {
		if err := sendLines(); err != nil {
			return nil, fmt.Errorf("send our addresses: %w", err)
		}
	}
	remote := make([]verbs.Address, lines)
	for i := range remote {
		line := make([]byte, lineBytes)
		_, err := io.ReadFull(conn, line)
		if err == nil {
			remote[i], err = decode(line)
		}
		if err != nil {
			return nil, fmt.Errorf("receive the peer's addresses: %w", err)
		}
	}
	if err := connect(remote); err != nil {
		return nil, err
	}
	if !server {
		_, err := io.WriteString(conn, doneMessage)
		return remote, err
	}
	// The server is connected before the client knows its address, and so before the first message can arrive.
	if err := sendLines(); err != nil {
		return nil, fmt.Errorf("send our addresses: %w", err)
	}
	end := make([]byte, len(doneMessage))
	if n, err := io.ReadFull(conn, end); err != nil {
		return nil, fmt.Errorf("the handshake ended with %q in place of \"done\": %w", end[:n], err)
	}
	if string(end) != doneMessage {
		return nil, fmt.Errorf("the handshake ended with %q in place of \"done\"", end)
	}
	return remote, nil
}
