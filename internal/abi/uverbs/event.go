package uverbs

// EventType is enum ibv_event_type.
type EventType uint32

// Asynchronous events. The element is a completion queue, a queue pair, a shared receive queue or a port, as the name says.
const (
	EventCQErr            EventType = 0  // IBV_EVENT_CQ_ERR
	EventQPFatal          EventType = 1  // IBV_EVENT_QP_FATAL
	EventQPReqErr         EventType = 2  // IBV_EVENT_QP_REQ_ERR
	EventQPAccessErr      EventType = 3  // IBV_EVENT_QP_ACCESS_ERR
	EventCommEst          EventType = 4  // IBV_EVENT_COMM_EST
	EventSQDrained        EventType = 5  // IBV_EVENT_SQ_DRAINED
	EventPathMig          EventType = 6  // IBV_EVENT_PATH_MIG
	EventPathMigErr       EventType = 7  // IBV_EVENT_PATH_MIG_ERR
	EventDeviceFatal      EventType = 8  // IBV_EVENT_DEVICE_FATAL
	EventPortActive       EventType = 9  // IBV_EVENT_PORT_ACTIVE
	EventPortErr          EventType = 10 // IBV_EVENT_PORT_ERR
	EventLIDChange        EventType = 11 // IBV_EVENT_LID_CHANGE
	EventPKeyChange       EventType = 12 // IBV_EVENT_PKEY_CHANGE
	EventSMChange         EventType = 13 // IBV_EVENT_SM_CHANGE
	EventSRQErr           EventType = 14 // IBV_EVENT_SRQ_ERR
	EventSRQLimitReached  EventType = 15 // IBV_EVENT_SRQ_LIMIT_REACHED
	EventQPLastWQEReached EventType = 16 // IBV_EVENT_QP_LAST_WQE_REACHED
	EventClientReregister EventType = 17 // IBV_EVENT_CLIENT_REREGISTER
	EventGIDChange        EventType = 18 // IBV_EVENT_GID_CHANGE
	EventWQFatal          EventType = 19 // IBV_EVENT_WQ_FATAL
)
