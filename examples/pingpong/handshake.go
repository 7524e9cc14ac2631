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

// Two queue pairs have to know each other's address before they can be connected, and RDMA does not say how. The C programs,
// and so we, use a TCP connection. On it the client sends a line for each of its pairs, the server answers with a line for
// each of its, and the client ends with "done". Between programs of one's own, the bytes of verbs.Address are all it takes.

// A line is LID:QPN:PSN:GID in hexadecimal digits, 4, 6, 6 and 32 of them, and a NUL.
const (
	lineFormat = "%04x:%06x:%06x:%032x\x00"
	lineBytes  = 52
)

// srqLines is how many lines ibv_srq_pingpong sends and expects, however few queue pairs it has: the last ones are of no pair.
const srqLines = 256

// theEnd is the client's last word.
const theEnd = "done\x00"

// encode makes the line of an address.
func encode(a verbs.Address) []byte {
	var gid [16]byte
	if a.GID.IsValid() {
		gid = a.GID.As16()
	}
	return fmt.Appendf(nil, lineFormat, a.LID, a.QPN, a.PSN, gid)
}

// decode reads a line. An address without GID has zeros there.
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

// describe writes an address for people, as the C programs do.
func describe(a verbs.Address) string {
	gid := "::"
	if a.GID.IsValid() {
		gid = a.GID.String()
	}
	return fmt.Sprintf("LID %#04x, QPN %#06x, PSN %#06x, GID %s", a.LID, a.QPN, a.PSN, gid)
}

// dial connects to the server, or as the server waits for the one client.
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

// handshake tells the peer the addresses of our pairs, has connect connect them to the peer's, and returns those. As many lines
// go each way.
func handshake(conn io.ReadWriter, server bool, lines int, local []verbs.Address,
	connect func(remote []verbs.Address) error) ([]verbs.Address, error) {
	tell := func() error {
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
		if err := tell(); err != nil {
			return nil, fmt.Errorf("tell our address: %w", err)
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
			return nil, fmt.Errorf("hear the other side's address: %w", err)
		}
	}
	if err := connect(remote); err != nil {
		return nil, err
	}
	if !server {
		_, err := io.WriteString(conn, theEnd)
		return remote, err
	}
	// The server is connected before the client knows its address, and so before the first message can come.
	if err := tell(); err != nil {
		return nil, fmt.Errorf("tell our address: %w", err)
	}
	end := make([]byte, len(theEnd))
	if n, err := io.ReadFull(conn, end); err != nil {
		return nil, fmt.Errorf("the handshake ended with %q: %w", end[:n], err)
	}
	if string(end) != theEnd {
		return nil, fmt.Errorf("the handshake ended with %q", end)
	}
	return remote, nil
}
