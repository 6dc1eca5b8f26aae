"""scikit-learn's own checks of an estimator, for every value of the arguments that pick parts.

Every method has every likelihood that it takes. Its other settings (schedule, objective, side) and
the split into pairs are one step from there, not all products: the checks are about the estimator,
which does the same with all of them.
"""



from gpclass.montecarlo import MonteCarlo

# few draws: the checks ask for shapes, types and errors, and for the same result twice
MCMC = MonteCarlo(n_samples=40, n_burn=20, n_chains=4, thin=2, evidence=False)
ANNEALED = MonteCarlo(n_samples=40, n_burn=20, n_chains=4, thin=2, n_temperatures=10, n_annealed=10)
