package retry

// BudgetCalls is for the tests of this package.
const BudgetCalls = budgetCalls
