package manager

import (
	"slices"

	"github.com/go-logr/logr"
)

// withoutQuotes keeps out of the log what libraries quote there of objects: the notes of events, from debug on, and
// what is sent to the API server and comes from it, from level 8 on. Either may hold what programs print, and the
// latter Secrets.
func withoutQuotes(logger logr.Logger) logr.Logger {
	return logger.WithSink(quoteless{logger.WithCallDepth(1).GetSink()})
}

// quoteless is a sink that drops the values of some keys.
type quoteless struct{ logr.LogSink }

func (s quoteless) Info(level int, msg string, keysAndValues ...any) {
	s.LogSink.Info(level, msg, unquoted(keysAndValues)...)
}

func (s quoteless) Error(err error, msg string, keysAndValues ...any) {
	s.LogSink.Error(err, msg, unquoted(keysAndValues)...)
}

func (s quoteless) WithValues(keysAndValues ...any) logr.LogSink {
	return quoteless{s.LogSink.WithValues(unquoted(keysAndValues)...)}
}

func (s quoteless) WithName(name string) logr.LogSink {
	return quoteless{s.LogSink.WithName(name)}
}

// unquoted returns the keys and values without those that client-go quotes objects by.
func unquoted(keysAndValues []any) []any {
	var kept []any
	for pair := range slices.Chunk(keysAndValues, 2) {
		if pair[0] != "note" && pair[0] != "body" {
			kept = append(kept, pair...)
		}
	}
	return kept
}
