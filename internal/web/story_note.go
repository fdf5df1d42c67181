package web

import "github.com/qwatch/qwatch/internal/story"

// alsoTold lets the story know what operators do to dead-lettered messages, beside whoever else is told.
// One event a command is enough: the audit log has the messages one by one.
func alsoTold(s *story.Recorder, next func(Action)) func(Action) {
	return func(a Action) {
		// What came to nothing is no event, unless it went wrong; a client that left did not. A queue's count before it was cleared is
		// but about right.
		nothing := a.Messages == 0 && (a.Error == "" || a.Left) && a.Operation != "clear"
		if kind, text := actionWords(a); kind != "" && a.MessageID == "" && !nothing {
			level := story.LevelInfo
			if a.Error != "" {
				level, text = story.LevelWarn, text+", and ended early"
			}
			s.NoteAgain(story.Event{Kind: kind, Level: level, Account: a.Account, Queue: a.Queue, Text: text, By: a.Operator})
		}
		if next != nil {
			next(a)
		}
	}
}

// actionWords says what was done; "" for what changes nothing, and what tells itself.
func actionWords(a Action) (kind story.EventKind, text string) {
	n := story.Count(int64(a.Messages), "message")
	switch a.Operation {
	case "replay":
		return story.EventReplay, n + " replayed"
	case "delete", "purge":
		return story.EventTriage, n + " deleted from the poison queue"
	case "import":
		return story.EventTriage, n + " imported into the poison queue"
	case "clear":
		return story.EventTriage, "queue cleared, about " + n
	case "export":
		return story.EventTriage, n + " exported from the poison queue"
	default:
		return "", ""
	}
}
