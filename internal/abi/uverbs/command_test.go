package uverbs

import "testing"

func TestCommandString(t *testing.T) {
	for c, want := range map[Command]string{
		CmdGetContext: "GET_CONTEXT", CmdDestroySRQ: "DESTROY_SRQ", CmdExQueryDevice: "EX_QUERY_DEVICE",
		6: "command 6", 1000: "command 1000", CommandExtended | 6: "command 2147483654",
	} {
		if got := c.String(); got != want {
			t.Errorf("%d is %q, want %q", uint32(c), got, want)
		}
	}
}
