package manager

import (
	"slices"

	"github.com/go-logr/logr"
)

// withoutQuotes returns a logger that drops quoted parts of objects from the messages of libraries: the notes of
// events at debug level, and the bodies of requests to the API server and of its responses at verbosity 8 and higher.
// Notes and bodies can contain the output of programs, and bodies can also contain Secrets.
func withoutQuotes(logger logr.Logger) logr.Logger {
	return logger.WithSink(quoteless{logger.WithCallDepth(1).GetSink()})
}

// quoteless is a sink that drops the key-value pairs with which libraries log parts of objects.
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

// unquoted returns the keys and values without the pairs with which client-go logs parts of objects.
func unquoted(keysAndValues []any) []any {
	var kept []any
	for pair := range slices.Chunk(keysAndValues, 2) {
		if pair[0] != "note" && pair[0] != "body" {
			kept = append(kept, pair...)
		}
	}
	return kept
}
