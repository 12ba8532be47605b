package why

// Words describes the reason in the status of a job in a few words. It returns "" if no job has the reason there.
func Words(reason string) string {
	for _, table := range []map[string]entry{initialized, running, paused, ended, podGroups} {
		if words := table[reason].words; words != "" {
			return words
		}
	}
	return ""
}
