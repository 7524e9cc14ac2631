package uverbs

import (
	"encoding/binary"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/internal/abi/nldev"
)

func le32(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }
func le64(v uint64) []byte { return binary.NativeEndian.AppendUint64(nil, v) }

// failure is a message of kind NLMSG_ERROR or NLMSG_DONE.
func failure(kind uint16, errno syscall.Errno) []byte {
	b := newRequest(0, 0, le32(uint32(-int32(errno))))
	binary.NativeEndian.PutUint16(b[4:], kind)
	return b
}

func deviceMessage(index uint32, name string) []byte {
	b := appendAttr(nil, nldev.AttrDevIndex, le32(index))
	return newRequest(nldev.CmdGet, 0, appendAttr(b, nldev.AttrDevName, []byte(name+"\x00")))
}

func chardevMessage() []byte {
	b := appendAttr(nil, nldev.AttrChardevName, []byte("uverbs1\x00"))
	b = appendAttr(b, nldev.AttrChardevABI, le64(2))
	b = appendAttr(b, nldev.AttrChardev, le64(231<<8|193))
	return newRequest(nldev.CmdGetChardev, 0, appendAttr(b, nldev.AttrUverbsDriverID, le32(14)))
}

// script replies to the dump with the first list of datagrams, and to the request for the file with the second.
func script(t *testing.T, dump, chardev [][]byte) func([]byte, func(attrs) bool) error {
	return func(request []byte, got func(attrs) bool) error {
		datagrams := dump
		switch kind := u16(request, 4); {
		case kind == 5<<10|1 && u16(request, 6) == 0x301:
		case kind == 5<<10|15 && u16(request, 6) == 1:
			datagrams = chardev
			a, err := decodeAttrs(request[16:])
			if err != nil || a.text(69) != "uverbs" || u32(a[1], 0) != 1 {
				t.Errorf("request with %v, %v", a, err)
			}
		default:
			t.Fatalf("request of type %#x, flags %#x", kind, u16(request, 6))
		}
		for _, d := range datagrams {
			if done, err := handleReplies(d, got); done || err != nil {
				return err
			}
		}
		return errors.New("the script is over")
	}
}

func TestFind(t *testing.T) {
	dump := [][]byte{append(deviceMessage(0, "mlx5_0"), deviceMessage(1, "rxe0")...), failure(nlmsgDone, 0)}
	got, err := find("rxe0", script(t, dump, [][]byte{chardevMessage()}))
	want := Device{Name: "rxe0", Uverbs: "uverbs1", Dev: 231<<8 | 193, ABI: 2, Driver: 14, SysPath: "/sys/class/infiniband/rxe0"}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := find("rxe1", script(t, dump, nil)); !errors.Is(err, syscall.ENODEV) || !strings.Contains(err.Error(), "mlx5_0") {
		t.Errorf("missing: %v", err)
	}
	for _, errno := range []syscall.Errno{syscall.EINVAL, syscall.ENOENT} {
		if _, err := find("rxe0", script(t, dump, [][]byte{failure(nlmsgError, errno)})); !errors.Is(err, errno) {
			t.Errorf("want %v, got %v", errno, err)
		}
	}
	if _, err := find("rxe0", script(t, [][]byte{failure(nlmsgDone, syscall.EPERM)}, nil)); !errors.Is(err, syscall.EPERM) {
		t.Errorf("a dump that fails: %v", err)
	}
	if _, err := find("rxe0", script(t, dump, [][]byte{deviceMessage(1, "rxe0")})); !errors.Is(err, errNetlink) {
		t.Errorf("a reply without a file: %v", err)
	}
}

// TestNetlinkPrefixes decodes truncated messages, with the original length in the header and with the truncated one.
func TestNetlinkPrefixes(t *testing.T) {
	b := chardevMessage()
	for n := range b {
		if _, _, err := decodeMessage(b[:n]); !errors.Is(err, errNetlink) {
			t.Errorf("%d of %d bytes: %v", n, len(b), err)
		}
	}
	want, err := decodeAttrs(b[16:])
	if err != nil || len(want) != 4 {
		t.Fatal(want, err)
	}
	for n := range b[16:] {
		if as, err := decodeAttrs(b[16:][:n]); err == nil && len(as) >= len(want) {
			t.Errorf("%d bytes make %v", n, as)
		}
	}
}

func FuzzNetlink(f *testing.F) {
	f.Add(chardevMessage())
	f.Add(append(deviceMessage(0, "mlx5_0"), failure(nlmsgDone, 0)...))
	f.Add(failure(nlmsgError, syscall.EPERM))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		handleReplies(b, func(a attrs) bool {
			for id := range a {
				a.text(id)
				a.number(id)
			}
			n++
			return false
		})
		if n > len(b)/nlmsgBytes {
			t.Errorf("%d messages in %d bytes", n, len(b))
		}
	})
}
