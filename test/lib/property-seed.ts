// One seed for every property: a red run is red again for whoever repeats it. POLAR_SEED searches elsewhere.
import fc from 'fast-check'

const DEFAULT_SEED = 24_220

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(process.env.POLAR_SEED ?? DEFAULT_SEED) })
