package limits

// A Key is one key during an operation, locked by its table.
type Key struct {
	Account

	Now     int64
	Changed bool // the table must write the account
}
