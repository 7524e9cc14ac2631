package uverbs

import "strconv"

// Command is enum ib_uverbs_write_cmds: what is written to the device's file. With CommandExtended it is the extended form.
type Command uint32

// ABIVersion is what /sys/class/infiniband_verbs/abi_version says of the interface described here.
const ABIVersion = 6 // IB_USER_VERBS_ABI_VERSION

// CommandExtended marks a command that has an ExCmdHdr.
const CommandExtended Command = 0x80000000 // IB_USER_VERBS_CMD_FLAG_EXTENDED

// Commands.
const (
	CmdGetContext        Command = 0                   // IB_USER_VERBS_CMD_GET_CONTEXT
	CmdQueryDevice       Command = 1                   // IB_USER_VERBS_CMD_QUERY_DEVICE
	CmdQueryPort         Command = 2                   // IB_USER_VERBS_CMD_QUERY_PORT
	CmdAllocPD           Command = 3                   // IB_USER_VERBS_CMD_ALLOC_PD
	CmdDeallocPD         Command = 4                   // IB_USER_VERBS_CMD_DEALLOC_PD
	CmdCreateAH          Command = 5                   // IB_USER_VERBS_CMD_CREATE_AH
	CmdDestroyAH         Command = 8                   // IB_USER_VERBS_CMD_DESTROY_AH
	CmdRegMR             Command = 9                   // IB_USER_VERBS_CMD_REG_MR
	CmdReregMR           Command = 11                  // IB_USER_VERBS_CMD_REREG_MR
	CmdDeregMR           Command = 13                  // IB_USER_VERBS_CMD_DEREG_MR
	CmdAllocMW           Command = 14                  // IB_USER_VERBS_CMD_ALLOC_MW
	CmdDeallocMW         Command = 16                  // IB_USER_VERBS_CMD_DEALLOC_MW
	CmdCreateCompChannel Command = 17                  // IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL
	CmdCreateCQ          Command = 18                  // IB_USER_VERBS_CMD_CREATE_CQ
	CmdResizeCQ          Command = 19                  // IB_USER_VERBS_CMD_RESIZE_CQ
	CmdDestroyCQ         Command = 20                  // IB_USER_VERBS_CMD_DESTROY_CQ
	CmdReqNotifyCQ       Command = 23                  // IB_USER_VERBS_CMD_REQ_NOTIFY_CQ
	CmdCreateQP          Command = 24                  // IB_USER_VERBS_CMD_CREATE_QP
	CmdQueryQP           Command = 25                  // IB_USER_VERBS_CMD_QUERY_QP
	CmdModifyQP          Command = 26                  // IB_USER_VERBS_CMD_MODIFY_QP
	CmdDestroyQP         Command = 27                  // IB_USER_VERBS_CMD_DESTROY_QP
	CmdPostSend          Command = 28                  // IB_USER_VERBS_CMD_POST_SEND
	CmdAttachMcast       Command = 30                  // IB_USER_VERBS_CMD_ATTACH_MCAST
	CmdDetachMcast       Command = 31                  // IB_USER_VERBS_CMD_DETACH_MCAST
	CmdCreateSRQ         Command = 32                  // IB_USER_VERBS_CMD_CREATE_SRQ
	CmdModifySRQ         Command = 33                  // IB_USER_VERBS_CMD_MODIFY_SRQ
	CmdQuerySRQ          Command = 34                  // IB_USER_VERBS_CMD_QUERY_SRQ
	CmdDestroySRQ        Command = 35                  // IB_USER_VERBS_CMD_DESTROY_SRQ
	CmdExQueryDevice     Command = CommandExtended | 1 // IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_QUERY_DEVICE
)

// String is the kernel's name of the command without its prefix, such as "CREATE_QP".
func (c Command) String() string {
	names := [...]string{
		CmdGetContext:        "GET_CONTEXT",
		CmdQueryDevice:       "QUERY_DEVICE",
		CmdQueryPort:         "QUERY_PORT",
		CmdAllocPD:           "ALLOC_PD",
		CmdDeallocPD:         "DEALLOC_PD",
		CmdCreateAH:          "CREATE_AH",
		CmdDestroyAH:         "DESTROY_AH",
		CmdRegMR:             "REG_MR",
		CmdReregMR:           "REREG_MR",
		CmdDeregMR:           "DEREG_MR",
		CmdAllocMW:           "ALLOC_MW",
		CmdDeallocMW:         "DEALLOC_MW",
		CmdCreateCompChannel: "CREATE_COMP_CHANNEL",
		CmdCreateCQ:          "CREATE_CQ",
		CmdResizeCQ:          "RESIZE_CQ",
		CmdDestroyCQ:         "DESTROY_CQ",
		CmdReqNotifyCQ:       "REQ_NOTIFY_CQ",
		CmdCreateQP:          "CREATE_QP",
		CmdQueryQP:           "QUERY_QP",
		CmdModifyQP:          "MODIFY_QP",
		CmdDestroyQP:         "DESTROY_QP",
		CmdPostSend:          "POST_SEND",
		CmdAttachMcast:       "ATTACH_MCAST",
		CmdDetachMcast:       "DETACH_MCAST",
		CmdCreateSRQ:         "CREATE_SRQ",
		CmdModifySRQ:         "MODIFY_SRQ",
		CmdQuerySRQ:          "QUERY_SRQ",
		CmdDestroySRQ:        "DESTROY_SRQ",
	}
	i := c &^ CommandExtended
	switch {
	case i >= Command(len(names)) || names[i] == "":
		return "command " + strconv.FormatUint(uint64(c), 10)
	case c != i:
		return "EX_" + names[i]
	}
	return names[i]
}
