// Package mcp is the vocabulary of the Model Context Protocol, each word of it
// once: methods, error codes, _meta keys, versions, log levels, headers. It is
// no client and no server, and keeps no state but the name of this process.
package mcp

// The methods of all revisions, named after how they are written.
const (
	Initialize             = "initialize"
	Ping                   = "ping"
	ServerDiscover         = "server/discover"
	ToolsList              = "tools/list"
	ToolsCall              = "tools/call"
	PromptsList            = "prompts/list"
	PromptsGet             = "prompts/get"
	ResourcesList          = "resources/list"
	ResourcesTemplatesList = "resources/templates/list"
	ResourcesRead          = "resources/read"
	ResourcesSubscribe     = "resources/subscribe"
	ResourcesUnsubscribe   = "resources/unsubscribe"
	SubscriptionsListen    = "subscriptions/listen"
	CompletionComplete     = "completion/complete"
	LoggingSetLevel        = "logging/setLevel"

	TasksGet    = "tasks/get"
	TasksResult = "tasks/result" // 2025-11-25 alone, like the next
	TasksList   = "tasks/list"
	TasksCancel = "tasks/cancel"
	TasksUpdate = "tasks/update" // the extension alone

	// Requests of servers.
	ElicitationCreate     = "elicitation/create"
	SamplingCreateMessage = "sampling/createMessage"
	RootsList             = "roots/list"

	// EverlineResult is everline's own: it gets the answer to a call whose client
	// has lost it.
	EverlineResult = "everline/result"
)

// Notifications.
const (
	NotifyInitialized      = "notifications/initialized"
	NotifyCancelled        = "notifications/cancelled"
	NotifyProgress         = "notifications/progress"
	NotifyMessage          = "notifications/message"
	NotifyToolsChanged     = "notifications/tools/list_changed"
	NotifyPromptsChanged   = "notifications/prompts/list_changed"
	NotifyResourcesChanged = "notifications/resources/list_changed"
	NotifyResourceUpdated  = "notifications/resources/updated"
	NotifyElicitationDone  = "notifications/elicitation/complete"
	NotifyAcknowledged     = "notifications/subscriptions/acknowledged"
	NotifyTaskStatus       = "notifications/tasks/status" // 2025-11-25
	NotifyTasks            = "notifications/tasks"        // the extension
)
