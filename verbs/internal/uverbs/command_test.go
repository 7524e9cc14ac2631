package uverbs

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
)

// at is a number in a command, at an offset from its start.
type at struct {
	offset int
	want   uint64 // in size bytes
	size   int
}

// commands are all typed calls, each with the command that must be written: its number, the lengths of command and response in
// words of four bytes, and the expected fields.
var commands = []struct {
	name  string
	call  func(*Context, Driver) error
	cmd   uint32
	words [2]uint16 // without the driver's part
	in    []at
	plain bool // takes no Driver
}{
	{name: "QUERY_DEVICE", cmd: 1, words: [2]uint16{4, 44}, plain: true,
		call: func(c *Context, _ Driver) error { _, err := c.QueryDevice(); return err }},
	{name: "QUERY_PORT", cmd: 2, words: [2]uint16{6, 10}, in: []at{{16, 1, 1}}, plain: true,
		call: func(c *Context, _ Driver) error { _, err := c.QueryPort(1); return err }},
	{name: "ALLOC_PD", cmd: 3, words: [2]uint16{4, 1},
		call: func(c *Context, d Driver) error { _, err := c.AllocPD(d); return err }},
	{name: "DEALLOC_PD", cmd: 4, words: [2]uint16{3, 0}, in: []at{{8, 7, 4}}, plain: true,
		call: func(c *Context, _ Driver) error { return c.DeallocPD(7) }},
	{name: "CREATE_AH", cmd: 5, words: [2]uint16{16, 1},
		in: []at{{16, 9, 8}, {24, 7, 4}, {32, 0xfe, 1}, {48, 5, 4}, {61, 1, 1}, {62, 2, 1}},
		call: func(c *Context, d Driver) error {
			_, err := c.CreateAH(abi.CreateAH{UserHandle: 9, PDHandle: 7, Attr: abi.AHAttr{
				GRH: abi.GlobalRoute{DGID: [16]byte{0xfe}, FlowLabel: 5}, IsGlobal: 1, PortNum: 2}}, d)
			return err
		}},
	{name: "DESTROY_AH", cmd: 8, words: [2]uint16{3, 0}, in: []at{{8, 7, 4}}, plain: true,
		call: func(c *Context, _ Driver) error { return c.DestroyAH(7) }},
	{name: "REG_MR", cmd: 9, words: [2]uint16{12, 3},
		in: []at{{16, 1 << 40, 8}, {24, 4096, 8}, {32, 5 << 40, 8}, {40, 7, 4}, {44, 15, 4}},
		call: func(c *Context, d Driver) error {
			_, err := c.RegMR(abi.RegMR{Start: 1 << 40, Length: 4096, HCAVA: 5 << 40, PDHandle: 7, AccessFlags: 15}, d)
			return err
		}},
	{name: "REREG_MR", cmd: 11, words: [2]uint16{14, 2},
		in: []at{{16, 8, 4}, {20, 7, 4}, {24, 1 << 40, 8}, {32, 4096, 8}, {40, 5 << 40, 8}, {48, 6, 4}, {52, 15, 4}},
		call: func(c *Context, d Driver) error {
			_, err := c.ReregMR(abi.ReregMR{MRHandle: 8, Flags: 7, Start: 1 << 40, Length: 4096, HCAVA: 5 << 40, PDHandle: 6,
				AccessFlags: 15}, d)
			return err
		}},
	{name: "DEREG_MR", cmd: 13, words: [2]uint16{3, 0}, in: []at{{8, 7, 4}}, plain: true,
		call: func(c *Context, _ Driver) error { return c.DeregMR(7) }},
	{name: "ALLOC_MW", cmd: 14, words: [2]uint16{6, 2}, in: []at{{16, 7, 4}, {20, 2, 1}},
		call: func(c *Context, d Driver) error {
			_, err := c.AllocMW(abi.AllocMW{PDHandle: 7, MWType: 2}, d)
			return err
		}},
	{name: "DEALLOC_MW", cmd: 16, words: [2]uint16{3, 0}, in: []at{{8, 7, 4}}, plain: true,
		call: func(c *Context, _ Driver) error { return c.DeallocMW(7) }},
	{name: "CREATE_CQ", cmd: 18, words: [2]uint16{10, 2}, in: []at{{16, 9, 8}, {24, 100, 4}, {28, 1, 4}, {32, 0xffffffff, 4}},
		call: func(c *Context, d Driver) error {
			_, err := c.CreateCQ(abi.CreateCQ{UserHandle: 9, CQE: 100, CompVector: 1, CompChannel: -1}, d)
			return err
		}},
	{name: "RESIZE_CQ", cmd: 19, words: [2]uint16{6, 2}, in: []at{{16, 7, 4}, {20, 100, 4}},
		call: func(c *Context, d Driver) error { _, err := c.ResizeCQ(7, 100, d); return err }},
	{name: "DESTROY_CQ", cmd: 20, words: [2]uint16{6, 2}, in: []at{{16, 7, 4}}, plain: true,
		call: func(c *Context, _ Driver) error { _, err := c.DestroyCQ(7); return err }},
	{name: "CREATE_QP", cmd: 24, words: [2]uint16{16, 8},
		in: []at{{16, 9, 8}, {24, 1, 4}, {28, 2, 4}, {32, 3, 4}, {36, 4, 4}, {40, 5, 4}, {56, 6, 4}, {60, 1, 1}, {61, 2, 1},
			{62, 1, 1}},
		call: func(c *Context, d Driver) error {
			_, err := c.CreateQP(abi.CreateQP{UserHandle: 9, PDHandle: 1, SendCQHandle: 2, RecvCQHandle: 3, SRQHandle: 4, MaxSendWR: 5,
				MaxInlineData: 6, SQSigAll: 1, QPType: 2, IsSRQ: 1}, d)
			return err
		}},
	{name: "QUERY_QP", cmd: 25, words: [2]uint16{6, 32}, in: []at{{16, 7, 4}, {20, 1, 4}}, plain: true,
		call: func(c *Context, _ Driver) error { _, err := c.QueryQP(7, 1); return err }},
	{name: "MODIFY_QP", cmd: 26, words: [2]uint16{30, 0}, in: []at{{72, 7, 4}, {76, 1, 4}, {104, 1, 1}, {106, 5, 1}}, plain: true,
		call: func(c *Context, _ Driver) error {
			return c.ModifyQP(abi.ModifyQP{QPHandle: 7, AttrMask: 1, QPState: 1, PathMTU: 5})
		}},
	{name: "DESTROY_QP", cmd: 27, words: [2]uint16{6, 1}, in: []at{{16, 7, 4}}, plain: true,
		call: func(c *Context, _ Driver) error { _, err := c.DestroyQP(7); return err }},
	{name: "ATTACH_MCAST", cmd: 30, words: [2]uint16{8, 0}, in: []at{{8, 0xff, 1}, {24, 7, 4}, {28, 3, 2}}, plain: true,
		call: func(c *Context, _ Driver) error { return c.AttachMcast(7, [16]byte{0xff}, 3) }},
	{name: "DETACH_MCAST", cmd: 31, words: [2]uint16{8, 0}, in: []at{{8, 0xff, 1}, {24, 7, 4}, {28, 3, 2}}, plain: true,
		call: func(c *Context, _ Driver) error { return c.DetachMcast(7, [16]byte{0xff}, 3) }},
	{name: "CREATE_SRQ", cmd: 32, words: [2]uint16{10, 4}, in: []at{{16, 9, 8}, {24, 7, 4}, {28, 100, 4}, {32, 2, 4}, {36, 1, 4}},
		call: func(c *Context, d Driver) error {
			_, err := c.CreateSRQ(abi.CreateSRQ{UserHandle: 9, PDHandle: 7, MaxWR: 100, MaxSGE: 2, SRQLimit: 1}, d)
			return err
		}},
	{name: "MODIFY_SRQ", cmd: 33, words: [2]uint16{6, 0}, in: []at{{8, 7, 4}, {12, 2, 4}, {20, 10, 4}}, plain: true,
		call: func(c *Context, _ Driver) error {
			return c.ModifySRQ(abi.ModifySRQ{SRQHandle: 7, AttrMask: 2, SRQLimit: 10}, nil)
		}},
	{name: "QUERY_SRQ", cmd: 34, words: [2]uint16{6, 4}, in: []at{{16, 7, 4}}, plain: true,
		call: func(c *Context, _ Driver) error { _, err := c.QuerySRQ(7); return err }},
	{name: "DESTROY_SRQ", cmd: 35, words: [2]uint16{6, 1}, in: []at{{16, 7, 4}}, plain: true,
		call: func(c *Context, _ Driver) error { _, err := c.DestroySRQ(7); return err }},
	{name: "POST_SEND", cmd: 28, words: [2]uint16{8, 1}, in: []at{{16, 7, 4}, {20, 0, 4}, {24, 0, 4}, {28, 128, 4}}, plain: true,
		call: func(c *Context, _ Driver) error { return c.NewDoorbell(7).Ring() }},
	{name: "REQ_NOTIFY_CQ", cmd: 23, words: [2]uint16{4, 0}, in: []at{{8, 7, 4}, {12, 1, 4}}, plain: true,
		call: func(c *Context, _ Driver) error { return c.NewNotifier(7).Notify(true) }},
}

// TestCommands compares every command with the layout in the kernel's header, field by field.
func TestCommands(t *testing.T) {
	for _, test := range commands {
		t.Run(test.name, func(t *testing.T) {
			c, f := start(t)
			d := Driver{In: []byte("12345678"), Out: make([]byte, 12)}
			if test.plain {
				d = Driver{}
			}
			f.respond = func(_, resp []byte) error {
				copy(resp, bytes.Repeat([]byte{0xab}, len(resp)))
				return nil
			}
			if err := test.call(c, d); err != nil {
				t.Fatal(err)
			}
			words := [2]uint16{test.words[0] + uint16(len(d.In))/4, test.words[1] + uint16(len(d.Out))/4}
			if got := [2]uint16{u16(f.command, 4), u16(f.command, 6)}; got != words || len(f.command) != 4*int(words[0]) {
				t.Errorf("the header says %d words; the command has %d bytes, want %d words", got, len(f.command), words)
			}
			if cmd := u32(f.command, 0); cmd != test.cmd {
				t.Errorf("command %d, want %d", cmd, test.cmd)
			}
			if words[1] > 0 && (u64(f.command, 8) != address(f.resp) || len(f.resp) != 4*int(words[1])) {
				t.Errorf("response of %d bytes at %#x, want it at %#x", len(f.resp), u64(f.command, 8), address(f.resp))
			}
			for _, a := range test.in {
				if got := u64(append(f.command[a.offset:][:a.size:a.size], make([]byte, 8)...), 0); got != a.want {
					t.Errorf("%#x in %d bytes at %d, want %#x", got, a.size, a.offset, a.want)
				}
			}
			if !test.plain && !bytes.HasSuffix(f.command, d.In) {
				t.Errorf("the driver's input is not at the end of % x", f.command)
			}
			if bytes.Count(d.Out, []byte{0xab}) != len(d.Out) {
				t.Errorf("the driver's response is % x", d.Out)
			}
		})
	}
}

// TestErrors makes every command fail, as when a device was removed.
func TestErrors(t *testing.T) {
	for _, test := range commands {
		c, f := start(t)
		f.respond = func(_, _ []byte) error { return syscall.EIO }
		err := test.call(c, Driver{})
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, syscall.EIO) || e.Call != test.name || !strings.Contains(err.Error(), "was removed") {
			t.Errorf("%s: got %v", test.name, err)
		}
		if c.Close(); !errors.Is(test.call(c, Driver{}), ErrClosed) {
			t.Errorf("%s after Close: got %v", test.name, test.call(c, Driver{}))
		}
	}
}

// TestResponses checks responses whose fields do not fill whole words, and responses with a driver's part after them.
func TestResponses(t *testing.T) {
	c, f := start(t)
	f.respond = func(_, resp []byte) error {
		for i := range resp {
			resp[i] = byte(i)
		}
		return nil
	}
	port, err := c.QueryPort(1)
	if err != nil || port.State != 26 || port.LinkLayer != 37 || port.PKeyTblLen != 21<<8|20 {
		t.Errorf("port %+v, %v", port, err)
	}
	dev, err := c.QueryDevice()
	if err != nil || dev.MaxQP != 0x37363534 || dev.PhysPortCnt != 171 {
		t.Errorf("device %+v, %v", dev, err)
	}
	ex, err := c.QueryDeviceEx()
	if err != nil || ex.Base != dev || ex.ResponseLength != 0xb7b6b5b4 {
		t.Errorf("extended %+v, %v", ex, err)
	}
	if got := [3]uint32{u32(f.command, 0), u32(f.command, 4), u32(f.command, 16)}; got != [3]uint32{0x80000001, 38<<16 | 1, 0} {
		t.Errorf("extended command %#x", got)
	}
	mr, err := c.RegMR(abi.RegMR{}, Driver{})
	if want := (abi.RegMRResp{MRHandle: 0x03020100, LKey: 0x07060504, RKey: 0x0b0a0908}); err != nil || mr != want {
		t.Errorf("region %+v, %v", mr, err)
	}
	out := make([]byte, 16)
	cq, err := c.CreateCQ(abi.CreateCQ{}, Driver{Out: out})
	if err != nil || cq.CQE != 0x07060504 || out[0] != 8 || out[15] != 23 {
		t.Errorf("queue %+v, driver % x, %v", cq, out, err)
	}
}

// TestModifySRQ resizes: the driver writes its response to an address in its input.
func TestModifySRQ(t *testing.T) {
	c, f := start(t)
	f.respond = func(command, resp []byte) error {
		if len(command) != 32 || u16(command, 4) != 8 || u16(command, 6) != 0 || u64(command, 24) != address(resp) {
			return fmt.Errorf("command % x, response at %#x", command, address(resp))
		}
		copy(resp, "sixteen bytes...")
		return nil
	}
	out := make([]byte, 16)
	if err := c.ModifySRQ(abi.ModifySRQ{SRQHandle: 7, AttrMask: 1, MaxWR: 10}, out); err != nil {
		t.Fatal(err)
	}
	if string(out) != "sixteen bytes..." {
		t.Errorf("response %q", out)
	}
}

// TestOddPayload checks that payloads that are not whole words are refused before the kernel sees them.
func TestOddPayload(t *testing.T) {
	c, f := start(t)
	f.command = nil
	for _, d := range []Driver{
		{In: make([]byte, 3)}, {Out: make([]byte, 5)}, {Out: make([]byte, 1<<18)}, {In: make([]byte, 1<<18)},
	} {
		if _, err := c.AllocPD(d); !errors.Is(err, syscall.EINVAL) || f.command != nil {
			t.Errorf("%d in, %d out: %v", len(d.In), len(d.Out), err)
		}
	}
}

func TestPKey(t *testing.T) {
	c, _ := start(t)
	if key, err := c.PKey(1, 0); err != nil || key != 0xffff {
		t.Errorf("got %#x, %v", key, err)
	}
	for _, index := range []int{1, 2} { // missing, garbage
		if key, err := c.PKey(1, index); err == nil {
			t.Errorf("entry %d: got %#x", index, key)
		}
	}
}
